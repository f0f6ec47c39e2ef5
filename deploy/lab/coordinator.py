"""A labgrid coordinator, spoken to by the client that labgrid's own protocol generates (gRPC, from labgrid 25.0 on).

No link is kept while a board is used: labgrid's places stay acquired when a client goes. Every call has a deadline.
"""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from core.errors import HostToolMissing, LabUnreached, NoBoard, nearest
from deploy.lab.names import user_name
from deploy.lab.place import DEVICE, HdcDevice, LabPlace

DEFAULT_PORT = 20408
ANSWER_SECONDS = 10.0
TAKE_SECONDS = 45.0
"""For acquiring or releasing: the coordinator itself gives each exporter 10 s."""
REFUSALS = ("FAILED_PRECONDITION", "PERMISSION_DENIED")


class Coordinator:
    """A link to a coordinator; made by `connect`."""

    def __init__(self, address: str, channel: Any, seconds: float) -> None:
        from labgrid.remote.generated import labgrid_coordinator_pb2, labgrid_coordinator_pb2_grpc

        self.address = address
        self._seconds = seconds
        self._words = labgrid_coordinator_pb2
        self._stub = labgrid_coordinator_pb2_grpc.CoordinatorStub(channel)

    def places(self) -> list[LabPlace]:
        """All places, with the boards that belong to them. Raises LabUnreached."""
        from labgrid.remote.common import Place

        with _told(self.address), self._known_as(user_name(), self._seconds) as (places, resources):
            owners = self._reservations()
            return [_read(Place.from_pb2(place), resources, owners) for place in places.values()]

    def find(self, name: str) -> LabPlace:
        """The place of that name or alias, or with ``+TOKEN`` the one that a reservation has. Raises NoBoard, LabUnreached."""
        if name.startswith("+"):
            name = self._reserved(name[1:])
        places = self.places()
        for place in places:
            if name in (place.name, *place.aliases):
                return place
        known = sorted(place.name for place in places)
        raise NoBoard(
            f"The lab at {self.address} has no place {name!r}; {nearest(name, known) if known else 'it has none at all'}.",
            remedy="`ohforge board.list` shows its places.",
        )

    def acquire(self, place: str, name: str) -> str:
        """Acquires a place as `name`; returns what the coordinator has against it, which is nothing when it is done."""
        import grpc

        with _told(self.address), self._known_as(name, TAKE_SECONDS):
            try:
                self._stub.AcquirePlace(self._words.AcquirePlaceRequest(placename=place), timeout=TAKE_SECONDS)
                # So that labgrid-client of the same user can open a console meanwhile.
                if name != user_name():
                    request = self._words.AllowPlaceRequest(placename=place, user=user_name())
                    self._stub.AllowPlace(request, timeout=self._seconds)
            except grpc.RpcError as error:
                if error.code().name in REFUSALS:
                    return str(error.details())
                raise
        return ""

    def release(self, place: str, name: str) -> None:
        """Releases a place if it is `name` who has it. Raises LabUnreached."""
        with _told(self.address):
            request = self._words.ReleasePlaceRequest(placename=place, fromuser=name)
            self._stub.ReleasePlace(request, timeout=TAKE_SECONDS)

    @contextlib.contextmanager
    def _known_as(self, name: str, seconds: float) -> Iterator[tuple[dict[str, Any], dict[tuple[str, str, str], Any]]]:
        """Makes the link known under `name` for up to so many seconds; gives places and resources as they are."""
        from labgrid.remote.common import ResourceEntry

        outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for request in self._greeting(name):
            outgoing.put(request)
        places: dict[str, Any] = {}
        resources: dict[tuple[str, str, str], Any] = {}
        answers = self._stub.ClientStream(iter(outgoing.get, None), timeout=seconds)
        try:
            for answer in answers:
                for update in answer.updates:
                    if update.WhichOneof("kind") == "place":
                        places[update.place.name] = update.place
                    elif update.WhichOneof("kind") == "resource":
                        path = update.resource.path
                        entry = ResourceEntry(ResourceEntry.data_from_pb2(update.resource))
                        resources[path.exporter_name, path.group_name, path.resource_name] = entry
                if answer.HasField("sync"):
                    break
            yield places, resources
        finally:
            outgoing.put(None)
            answers.cancel()

    def _greeting(self, name: str) -> Iterator[Any]:
        from labgrid.util import labgrid_version

        message = self._words.ClientInMessage
        yield message(startup=self._words.StartupDone(version=labgrid_version(), name=name))
        yield message(subscribe=self._words.Subscribe(all_places=True))
        yield message(subscribe=self._words.Subscribe(all_resources=True))
        yield message(sync=self._words.Sync(id=1))

    def _reservations(self) -> dict[str, Any]:
        answer = self._stub.GetReservations(self._words.GetReservationsRequest(), timeout=self._seconds)
        return {reservation.token: reservation for reservation in answer.reservations}

    def _reserved(self, token: str) -> str:
        """The name of the place that a reservation has been given."""
        with _told(self.address):
            reservation = self._reservations().get(token)
        place = str(reservation.allocations.get("main", "")) if reservation is not None else ""
        if not place:
            why = "has no place yet" if reservation is not None else "is not known, or has expired"
            raise NoBoard(
                f"The reservation {token} {why} in the lab at {self.address}.",
                remedy=f"`labgrid-client -x {self.address} reserve --wait TAG=VALUE` makes one and waits for a place.",
            )
        return place


@contextlib.contextmanager
def connect(address: str, seconds: float = ANSWER_SECONDS) -> Iterator[Coordinator]:
    """A link to the coordinator at ``HOST[:PORT]``, whose answers may take so long. Raises HostToolMissing, LabUnreached."""
    if importlib.util.find_spec("labgrid") is None:
        raise HostToolMissing(
            "labgrid is not installed, so the boards of a lab cannot be reached.",
            remedy=f"Install it: {sys.executable} -m pip install 'labgrid>=25.0'.",
        )
    import grpc
    from labgrid.util.proxy import proxymanager

    with grpc.insecure_channel(proxymanager.get_grpc_address(address, default_port=DEFAULT_PORT)) as channel:
        yield Coordinator(address, channel, seconds)


@contextlib.contextmanager
def _told(address: str) -> Iterator[None]:
    """Makes what gRPC raises into an error that names the coordinator."""
    import grpc

    try:
        yield
    except grpc.RpcError as error:
        code = error.code().name.lower().replace("_", " ")
        raise LabUnreached(
            f"The labgrid coordinator at {address} does not answer: {code} ({error.details()})."
        ) from None


def _read(place: Any, resources: Mapping[tuple[str, str, str], Any], reservations: Mapping[str, Any]) -> LabPlace:
    reservation = reservations.get(place.reservation or "")
    return LabPlace(
        name=place.name,
        aliases=tuple(sorted(place.aliases)),
        comment=place.comment,
        holder=place.acquired or "",
        allowed=tuple(sorted(place.allowed)),
        reserved_by=reservation.owner if reservation is not None else "",
        since=place.changed,
        matches=tuple(map(str, place.matches)),
        devices=tuple(_devices(place, resources)),
    )


def _devices(place: Any, resources: Mapping[tuple[str, str, str], Any]) -> Iterable[HdcDevice]:
    for (exporter, group, name), entry in sorted(resources.items()):
        if entry.cls != DEVICE or not place.hasmatch((exporter, group, entry.cls, name)):
            continue
        told = {key: str(value or "") for key, value in entry.args.items()}
        host = entry.extra.get("proxy") if entry.extra.get("proxy_required") else told.get("host")
        yield HdcDevice(
            host=str(host or exporter),
            serial=told.get("serial", ""),
            hdc_server=told.get("hdc_server", ""),
            profile=told.get("profile", ""),
            hdc=told.get("hdc", ""),
            available=entry.avail,
        )
