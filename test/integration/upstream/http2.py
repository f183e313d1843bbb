"""HTTP/2 with prior knowledge, as Envoy speaks it to a plain-text cluster."""

import asyncio
import socket

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from .application import Application
from .exchange import Exchange, Pairs, PeerGone, Request, Response
from .http1 import Peer


async def serve(peer: Peer, application: Application, head: bytes) -> None:
    """`head` is the part of the connection preface that was read already."""
    await _Connection(peer, application).run(head)


class _Connection:
    def __init__(self, peer: Peer, application: Application) -> None:
        self.peer = peer
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="latin-1")
        )
        self._application = application
        self._streams: dict[int, Http2Exchange] = {}
        self._tasks: set[asyncio.Task] = set()
        # Wakes those who wait for room in a flow-control window.
        self.window = asyncio.Condition()
        raw = peer.writer.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def run(self, head: bytes) -> None:
        self.h2.initiate_connection()
        self.h2.receive_data(head)
        self.flush()
        try:
            while data := await self.peer.reader.read(65536):
                for event in self.h2.receive_data(data):
                    await self._on(event)
                self.flush()
        except (h2.exceptions.ProtocolError, ConnectionError):
            pass
        finally:
            for stream in self._streams.values():
                stream.on_gone()
            async with self.window:
                self.window.notify_all()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def flush(self) -> None:
        if not self.peer.writer.is_closing():
            self.peer.writer.write(self.h2.data_to_send())

    def forget(self, stream_id: int) -> None:
        self._streams.pop(stream_id, None)

    async def _on(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                self._start(event)
            case h2.events.DataReceived():
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if stream := self._streams.get(event.stream_id):
                    stream.on_data(event.data)
            case h2.events.TrailersReceived():
                if stream := self._streams.get(event.stream_id):
                    stream.request_trailers.extend(event.headers)
            case h2.events.StreamEnded():
                if stream := self._streams.get(event.stream_id):
                    stream.on_end()
            case h2.events.StreamReset():
                if stream := self._streams.get(event.stream_id):
                    stream.on_gone()
        if isinstance(
            event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged | h2.events.StreamReset
        ):
            async with self.window:
                self.window.notify_all()

    def _start(self, event: h2.events.RequestReceived) -> None:
        fields = dict(event.headers)
        headers = [(name, value) for name, value in event.headers if not name.startswith(":")]
        request = Request(
            fields[":method"],
            fields.get(":path", ""),
            headers,
            "HTTP/2",
            fields.get(":authority"),
            fields.get(":scheme"),
        )
        stream = Http2Exchange(self, event.stream_id, request)
        self._streams[event.stream_id] = stream
        task = asyncio.ensure_future(self._application.run(stream))
        self._tasks.add(task)

        def done(finished: asyncio.Task) -> None:
            self._tasks.discard(finished)
            self.forget(event.stream_id)

        task.add_done_callback(done)


class Http2Exchange(Exchange):
    def __init__(self, connection: _Connection, stream_id: int, request: Request) -> None:
        self.request = request
        self.request_trailers: Pairs = []
        self.gone = asyncio.Event()
        self._connection = connection
        self._id = stream_id
        self._body = bytearray()
        self._whole = asyncio.Event()

    def on_data(self, data: bytes) -> None:
        self._body += data

    def on_end(self) -> None:
        self._whole.set()

    def on_gone(self) -> None:
        self.gone.set()
        self._whole.set()

    async def read_body(self) -> bytes:
        await self._whole.wait()
        if self.gone.is_set():
            raise PeerGone
        return bytes(self._body)

    async def interim(self, status: int, headers: Pairs) -> None:
        self._send(lambda h2c: h2c.send_headers(self._id, [(":status", str(status)), *headers]))

    async def respond(self, response: Response) -> None:
        body = b"" if self.request.method == "HEAD" else response.body
        self._send_headers(response, end=not body and not response.trailers)
        await self._send_end(body, response)

    async def respond_half(self, response: Response) -> None:
        self._send_headers(response, end=False)
        await self._send_body(response.body[: len(response.body) // 2], end=False)
        await self._connection.peer.writer.drain()

    async def respond_rest(self, response: Response) -> None:
        await self._send_end(response.body[len(response.body) // 2 :], response)

    async def close(self) -> None:
        self._connection.peer.close()

    async def reset(self) -> None:
        self._reset_stream(h2.errors.ErrorCodes.INTERNAL_ERROR)

    async def refuse(self) -> None:
        self._reset_stream(h2.errors.ErrorCodes.REFUSED_STREAM)

    async def goaway(self) -> None:
        self._send(lambda h2c: h2c.close_connection(last_stream_id=self._id - 2 if self._id > 1 else 0))
        self._connection.peer.close()

    def _reset_stream(self, code: h2.errors.ErrorCodes) -> None:
        self._send(lambda h2c: h2c.reset_stream(self._id, code))

    def _send_headers(self, response: Response, end: bool) -> None:
        headers = [(":status", str(response.status))]
        headers += [(name.lower(), value) for name, value in response.headers]
        if response.status not in (204, 304) and not response.trailers:
            headers.append(("content-length", str(len(response.body))))
        self._send(lambda h2c: h2c.send_headers(self._id, headers, end_stream=end))

    async def _send_end(self, body: bytes, response: Response) -> None:
        """The last of the body, and the trailers."""
        if body:
            await self._send_body(body, end=not response.trailers)
        if response.trailers:
            self._send(lambda h2c: h2c.send_headers(self._id, response.trailers, end_stream=True))
        await self._connection.peer.writer.drain()

    async def _send_body(self, body: bytes, end: bool) -> None:
        position = 0
        while position < len(body):
            async with self._connection.window:
                await self._connection.window.wait_for(lambda: self.gone.is_set() or self._room() > 0)
            if self.gone.is_set():
                raise PeerGone
            piece = body[position : position + self._room()]
            position += len(piece)
            last = end and position == len(body)
            self._send(lambda h2c, piece=piece, last=last: h2c.send_data(self._id, piece, end_stream=last))

    def _room(self) -> int:
        h2c = self._connection.h2
        return min(h2c.local_flow_control_window(self._id), h2c.max_outbound_frame_size)

    def _send(self, call) -> None:
        try:
            call(self._connection.h2)
        except h2.exceptions.ProtocolError as error:
            raise PeerGone from error
        self._connection.flush()
