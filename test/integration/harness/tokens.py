"""JSON web tokens as an identity provider signs them (RS256)."""

import base64
import json
import subprocess
import time
from pathlib import Path

_HEADER = {"alg": "RS256", "typ": "JWT", "kid": "test"}


class TokenIssuer:
    ISSUER = "https://issuer.example"

    def __init__(self, folder: Path) -> None:
        self._key = folder / "issuer.key"
        _openssl("genrsa", "-out", str(self._key), "2048")

    def jwks(self) -> str:
        """The public key, as Envoy's jwt_authn reads it."""
        modulus = _openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode().strip()
        n = bytes.fromhex(modulus.partition("=")[2])
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "test", "n": _encode(n), "e": "AQAB"}
        return json.dumps({"keys": [key]})

    def token(self, **claims) -> str:
        now = int(time.time())
        claims = {"iss": self.ISSUER, "iat": now, "exp": now + 3600, **claims}
        signed = ".".join(_encode(json.dumps(part).encode()) for part in (_HEADER, claims))
        signature = _openssl("dgst", "-sha256", "-sign", str(self._key), input=signed.encode())
        return f"{signed}.{_encode(signature)}"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*arguments: str, **options) -> bytes:
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, **options).stdout
