"""TLS 1.3 in both directions: what a node shows, whom it believes, and who the other end is.

The files of an identity may be replaced while the node runs (rotation, a newer list of
revocations): `refresh` looks, and links made from then on use what is there.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from causalcast.errors import CausalcastError, ConfigError, WireError
from causalcast.runtime.security.identity import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    NODE,
    REVOKED,
    Identity,
    Passport,
    read_certificate,
)
from causalcast.runtime.security.revocations import Revocations

log = logging.getLogger(__name__)

_FILES: Final = (CERTIFICATE, KEY, AUTHORITY, REVOKED)


class Tls:
    """The identity of a running node, and the contexts made from it."""

    def __init__(
        self,
        folder: Path,
        cluster: str,
        authority: Path | None = None,
        storage: Path | None = None,
    ) -> None:
        """`storage`: where to keep a list of revocations that the identity's folder does not take,
        as where that is a secret which is mounted for reading."""
        self.identity = Identity.read(folder)
        if self.identity.passport.cluster != cluster:
            raise ConfigError(
                f"{folder / CERTIFICATE}: for cluster {self.identity.passport.cluster!r}, "
                f"and this node is in {cluster!r}"
            )
        self.revocations = Revocations.none()
        self.server: ssl.SSLContext
        self.client: ssl.SSLContext
        self._folder = folder
        # Where `causalcast keys revoke` writes: the own folder, or that of the authority here.
        self._lists = [place / REVOKED for place in (folder, authority, storage) if place]
        self._keepers = [place / REVOKED for place in (folder, storage) if place]
        self._is_kept = True
        self._seen = self._stamps()
        self._make_contexts()
        self._read_lists()

    def expires(self) -> int:
        """When the certificate lapses, in seconds since 1970."""
        return int(self.identity.certificate.not_valid_after_utc.timestamp())

    def refresh(self) -> bool:
        """Look whether files changed; True if there are new revocations."""
        if not self._is_kept:
            self._keep()
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        before = self.revocations.number
        try:
            self.identity = Identity.read(self._folder)
            self._make_contexts()
            self._read_lists()
            log.info("read the identity in %s again", self._folder)
        except (CausalcastError, OSError) as error:  # an error of TLS is one of the system, too
            self._seen = ()  # perhaps half of it was written: look again next time
            log.warning("the identity cannot be read, the old one stays: %s", error)
        return self.revocations.number > before

    def adopt(self, der: bytes) -> bool:
        """Somebody told a list of revocations: believe it if it is newer; WireError if it is none.

        It counts at once. Whether it can be kept for the next life is another matter.
        """
        told = Revocations.parse(der, self.identity.authorities)
        if told.number <= self.revocations.number:
            return False
        log.warning("%d certificates are revoked (list %d)", len(told.serials), told.number)
        self.revocations = told
        self._keep()
        return True

    def is_kept(self) -> bool:
        """Whether the list of revocations is on disk."""
        return self._is_kept

    def _keep(self) -> None:
        """Write the list where it can be written; if nowhere, say so and try again later."""
        was_kept, self._is_kept = self._is_kept, True
        errors = []
        for path in self._keepers:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self.revocations.write(path)
                return
            except OSError as error:
                errors.append(f"{path}: {error.strerror}")
        self._is_kept = False
        if was_kept:
            log.error(
                "list %d of revocations holds, and cannot be kept for the next start: %s",
                self.revocations.number,
                "; ".join(errors),
            )

    def passport(self, transport: asyncio.BaseTransport) -> Passport:
        """Who is at the other end; WireError for somebody who may not be heard."""
        tunnel = transport.get_extra_info("ssl_object")
        return self.read_passport(tunnel.getpeercert(binary_form=True))

    def read_passport(self, der: bytes) -> Passport:
        """What a certificate says whose chain was checked already."""
        passport = Passport.of(read_certificate(der))
        if passport.cluster != self.identity.passport.cluster:
            raise WireError(f"a certificate for cluster {passport.cluster!r}")
        if passport.serial in self.revocations.serials:
            raise WireError(f"the certificate of {passport.purpose} {passport.ids()} is revoked")
        return passport

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        paths = [*(self._folder / name for name in _FILES), *self._lists]
        return tuple(_stamp(path) for path in paths)

    def _make_contexts(self) -> None:
        self.server = context(self.identity.folder, ssl.PROTOCOL_TLS_SERVER)
        self.client = context(self.identity.folder, ssl.PROTOCOL_TLS_CLIENT)

    def _read_lists(self) -> None:
        for path in self._lists:
            read = Revocations.read(path, self.identity.authorities)
            if read.number > self.revocations.number:
                self.revocations = read


def context(folder: Path, role: int) -> ssl.SSLContext:
    """TLS 1.3 and nothing older, a certificate from both ends, no resumption.

    Names of hosts are not compared: a certificate names a node, and that is compared with the
    node that was dialled.
    """
    made = ssl.SSLContext(role)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(folder / AUTHORITY)
    made.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    if role == ssl.PROTOCOL_TLS_SERVER:
        made.num_tickets = 0  # a link that was resumed would not ask whether it is revoked
    return made


def objection_to(passport: Passport, node: int) -> str:
    """Why the holder of `passport` is not `node`; empty if it is."""
    if passport.purpose != NODE:
        return "a token is for joining, not for speaking as a node"
    if not passport.allows(node):
        return f"the certificate is of node {passport.ids()}, not of node {node}"
    return ""


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
