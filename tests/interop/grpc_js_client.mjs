/**
 * A tour of the echo service with a client of `@grpc/grpc-js`: `grpc_js_client.mjs ECHO_PROTO HOST:PORT`.
 *
 * It prints what it saw, as JSON; who started it judges. The server is `tests/support/echo.ts`.
 */
import process from "node:process";

const { default: grpc } = await import("@grpc/grpc-js");
const { default: loader } = await import("@grpc/proto-loader");
const [proto, address] = process.argv.slice(2);
const LARGE = 5_000_000;
const { EchoService } = grpc.loadPackageDefinition(loader.loadSync(proto)).proto.rpc.examples.echo.v1;
const echo = new EchoService(address, grpc.credentials.createInsecure(), {
  "grpc.max_receive_message_length": 2 * LARGE,
});

/** A unary call: its answer or its error, and the metadata of both ends. */
function unary(message, options = {}, metadata = new grpc.Metadata(), started = () => {}) {
  return new Promise((resolve) => {
    const seen = {};
    const call = echo.echo({ message }, metadata, options, (error, answer) => {
      if (error) seen.error = { code: error.code, details: error.details };
      else seen.message = answer.message;
    });
    call.on("metadata", (header) => seen.header = header.getMap());
    call.on("status", ({ metadata }) => {
      seen.trailer = metadata.getMap();
      resolve(seen);
    });
    started(call);
  });
}

/** All that a stream of answers says, and how it ends. */
function answers(call, limit = Infinity) {
  return new Promise((resolve) => {
    const seen = { messages: [] };
    call.on("data", ({ message }) => {
      if (seen.messages.length === limit) return;
      seen.messages.push(message);
      if (seen.messages.length === limit) call.cancel();
    });
    call.on("error", ({ code, details }) => seen.error = { code, details });
    call.on("status", () => resolve(seen));
  });
}

const seen = {};
seen.unary = (await unary("grüß dich")).message;
seen.letters = await answers(echo.echoMultiple({ message: "hello" }));
const both = echo.echoBiDi();
const turns = answers(both);
for (const message of ["a", "b", "c"]) both.write({ message });
both.end();
seen.turns = await turns;
seen.broken = await answers(echo.echoMultiple({ message: "broken" }));
seen.stopped = await answers(echo.echoMultiple({ message: "endless" }), "endless".length);

seen.failure = (await unary("fail:not_found:no ümläut, 100 %")).error;
seen.late = (await unary("hang", { deadline: Date.now() + 200 })).error.code;
seen.canceled =
  (await unary("hang", {}, undefined, (call) => setTimeout(() => call.cancel(), 50))).error.code;

const metadata = new grpc.Metadata();
metadata.add("x-text", "a");
metadata.add("x-text", "b");
metadata.add("x-bytes-bin", Buffer.from([0, 1, 2, 255]));
const { header, trailer } = await unary("", {}, metadata);
const told = (all) =>
  Object.fromEntries(
    Object.entries(all).map(([key, value]) => [key, Buffer.isBuffer(value) ? [...value] : value]),
  );
seen.metadata = { header: told(header), trailer: told(trailer) };

seen.sent = (await unary("y".repeat(LARGE))).message?.length;
seen.received = (await unary(`big:${LARGE}`)).message?.length;
const texts = Array.from({ length: 1000 }, (_, index) => `call ${index}`);
const all = await Promise.all(texts.map((text) => unary(text)));
seen.atOnce = all.filter(({ message }, index) => message === texts[index]).length;

echo.close();
console.log(JSON.stringify(seen));
