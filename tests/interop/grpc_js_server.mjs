/**
 * The echo service of proto/echo.proto on a server of `@grpc/grpc-js`: `grpc_js_server.mjs ECHO_PROTO [MAX_STREAMS]`.
 *
 * Runs in Node and in Deno. Prints its port, then serves until its input ends. A message waits a turn of the event loop
 * for its answer, so that calls pile up against the limit.
 */
import process from "node:process";

const { default: grpc } = await import("@grpc/grpc-js");
const { default: loader } = await import("@grpc/proto-loader");
const [proto, maxStreams] = process.argv.slice(2);
const definition = grpc.loadPackageDefinition(loader.loadSync(proto));
const limit = maxStreams === undefined ? {} : { "grpc.max_concurrent_streams": Number(maxStreams) };
const server = new grpc.Server(limit);
server.addService(definition.proto.rpc.examples.echo.v1.EchoService.service, {
  echo({ request }, answer) {
    if (maxStreams === undefined) answer(null, { message: request.message });
    else setTimeout(() => answer(null, { message: request.message }), 1);
  },
  echoMultiple(call) {
    for (const message of call.request.message) call.write({ message });
    call.end();
  },
  echoBiDi(call) {
    call.on("data", ({ message }) => call.write({ message }));
    call.on("end", () => call.end());
  },
});
server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
