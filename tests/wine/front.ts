/**
 * A front that takes HTTP/1.1 and asks a server behind it over HTTP/2.
 *
 * Deno 2.7.11, of which executables are made here, never answers HTTP/1.1 on a socket that is handed on, on any system;
 * the pinned Deno does. With the front a client that speaks only HTTP/1.1 reaches the program all the same.
 */

import * as http2 from "node:http2";

const WITHOUT_MEANING = ["connection", "host", "keep-alive", "transfer-encoding", "upgrade"];

/** Runs `use` with the address of a front of the server at `url`, which may start later than the front. */
export async function withFront<T>(
  url: string | (() => string),
  use: (front: string) => Promise<T>,
): Promise<T> {
  let session: http2.ClientHttp2Session | undefined;
  const behind = () => {
    if (session && !session.destroyed) return session;
    session = http2.connect(typeof url === "string" ? url : url());
    session.on("error", () => {});
    return session;
  };
  const front = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname, search } = new URL(request.url);
    const passed = [...request.headers].filter(([name]) => !WITHOUT_MEANING.includes(name));
    const stream = behind().request({
      ...Object.fromEntries(passed),
      ":method": request.method,
      ":path": pathname + search,
    }, { endStream: false });
    stream.on("error", () => {});
    const answered = Promise.withResolvers<http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader>();
    stream.once("response", answered.resolve).once("error", answered.reject);
    stream.end(new Uint8Array(await request.arrayBuffer()));
    const { ":status": status, ...headers } = await answered.promise;
    const given = Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string]);
    return new Response(bytesOf(stream), { status, headers: given });
  });
  try {
    return await use(`http://localhost:${front.addr.port}`);
  } finally {
    session?.destroy();
    await front.shutdown();
  }
}

/** The body of an answer; canceling it ends the call. */
function bytesOf(stream: http2.ClientHttp2Stream): ReadableStream<Uint8Array> {
  let open = true;
  return new ReadableStream({
    start(controller) {
      stream.on("data", (bytes: Uint8Array) => open && controller.enqueue(bytes));
      stream.once("close", () => {
        if (open) controller.close();
        open = false;
      });
    },
    cancel() {
      open = false;
      stream.close();
    },
  });
}
