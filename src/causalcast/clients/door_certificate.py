"""The certificate that a door shows: the node's own, or one that browsers believe."""

import contextlib
import logging
import ssl
from pathlib import Path
from typing import final

from causalcast.errors import NodeError
from causalcast.runtime.node_config import ClientDoor
from causalcast.runtime.security.identity import CERTIFICATE, KEY
from causalcast.runtime.security.tls import Tls

log = logging.getLogger(__name__)


@final
class DoorCertificate:
    """What TLS at the door needs; None as its context where a proxy speaks TLS, or nobody."""

    def __init__(self, config: ClientDoor, tls: Tls | None) -> None:
        self._config = config
        self._tls = tls
        self.context = self._make_context()
        self._stamp = self._stamp_now()

    def renew(self) -> None:
        """Use a certificate that has come since."""
        stamp = self._stamp_now()
        if stamp != self._stamp and self.context is not None:
            self._stamp = stamp
            try:
                self.context.load_cert_chain(*self._files())
            except (OSError, ssl.SSLError) as error:
                log.warning("the door's certificate cannot be read: %s", error)

    def _make_context(self) -> ssl.SSLContext | None:
        if not self._config.tls:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(*self._files())
        except OSError as error:  # an error of TLS is one of the system, too
            certificate, _ = self._files()
            raise NodeError(f"{certificate}: [clients] certificate: {error}") from None
        return context

    def _files(self) -> tuple[Path, Path]:
        if self._config.certificate is not None and self._config.key is not None:
            return self._config.certificate, self._config.key
        assert self._tls is not None
        folder = self._tls.identity.folder
        return folder / CERTIFICATE, folder / KEY

    def _stamp_now(self) -> tuple[int, ...]:
        if not self._config.tls:
            return ()
        with contextlib.suppress(OSError):
            return tuple(path.stat().st_mtime_ns for path in self._files())
        return ()
