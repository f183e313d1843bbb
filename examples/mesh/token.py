"""A token issuer for the example, with the openssl program and the standard library.

token.py jwks KEY.pem           prints the public key as a JSON Web Key Set
token.py sign KEY.pem TENANT    prints a JSON Web Token (RS256) that is valid for an hour
"""

import base64
import json
import subprocess
import sys
import time

_KEY_ID = "example"


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwks(key: str) -> str:
    command = ["openssl", "rsa", "-in", key, "-noout", "-modulus"]
    modulus = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().partition("=")[2]
    )
    # 65537, the exponent that openssl genrsa uses.
    public = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, "e": "AQAB"}
    return json.dumps({"keys": [{**public, "n": encode(bytes.fromhex(modulus))}]})


def sign(key: str, tenant: str) -> str:
    header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
    claims = {
        "iss": "https://issuer.example",
        "aud": "payments-api",
        "exp": int(time.time()) + 3600,
        "tenant": tenant,
    }
    text = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
    command = ["openssl", "dgst", "-sha256", "-sign", key]
    signature = subprocess.run(command, input=text.encode(), check=True, capture_output=True).stdout
    return f"{text}.{encode(signature)}"


def main() -> None:
    action, *arguments = sys.argv[1:]
    print({"jwks": jwks, "sign": sign}[action](*arguments))


if __name__ == "__main__":
    main()
