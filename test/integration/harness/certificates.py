"""A certificate authority of the test's own, for mutual TLS."""

import ssl
import subprocess
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "ca.crt"
        self._openssl(
            *("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", "/CN=test authority"),
            *("-keyout", folder / "ca.key", "-out", self.certificate),
        )

    def issue(self, name: str, *alternative_names: str) -> tuple[Path, Path]:
        """A certificate and its key. Names are written as openssl does: URI:spiffe://…, DNS:…, IP:…"""
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(alternative_names)}\n")
        self._openssl(
            *("req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request),
        )
        self._openssl(
            *("x509", "-req", "-days", "2", "-in", request, "-CA", self.certificate),
            *("-CAkey", self._folder / "ca.key", "-CAcreateserial"),
            *("-extfile", extensions, "-out", certificate),
        )
        # Envoy may run as another user.
        key.chmod(0o644)
        return certificate, key

    def listener_tls(self, certificate: Path, key: Path, *, client_required: bool) -> dict:
        """Envoy's transport socket of a listener that verifies client certificates."""
        common = {
            "tls_certificates": [
                {"certificate_chain": {"filename": str(certificate)}, "private_key": {"filename": str(key)}}
            ],
            "validation_context": {"trusted_ca": {"filename": str(self.certificate)}},
        }
        return {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                "require_client_certificate": client_required,
                "common_tls_context": common,
            },
        }

    def client_context(self, identity: tuple[Path, Path] | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.certificate)
        if identity:
            context.load_cert_chain(*identity)
        return context

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
