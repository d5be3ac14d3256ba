/**
 * A client of `@grpc/grpc-js` that calls once and then does nothing: `grpc_js_idle_client.mjs ECHO_PROTO HOST:PORT`.
 *
 * Prints a line after the call, and ends with 0 when its input ends, whatever its server did in the meantime.
 */
import process from "node:process";

const { default: grpc } = await import("@grpc/grpc-js");
const { default: loader } = await import("@grpc/proto-loader");
const [proto, address] = process.argv.slice(2);
const { EchoService } = grpc.loadPackageDefinition(loader.loadSync(proto)).proto.rpc.examples.echo.v1;
const echo = new EchoService(address, grpc.credentials.createInsecure());
echo.echo({ message: "hello" }, (error) => {
  if (error) throw error;
  console.log("called");
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
