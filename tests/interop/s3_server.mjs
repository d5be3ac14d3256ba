// Serves a folder as an S3-compatible store, with the key S3RVER and the secret S3RVER: node s3_server.mjs FOLDER BUCKET [PORT]
import { createRequire } from "node:module";

// Node installs it beside a copy of this file; Deno does not know it.
const S3rver = createRequire(import.meta.url)("s3rver");
const [directory, name, wanted = "0"] = process.argv.slice(2);
const server = new S3rver({
  address: "127.0.0.1",
  port: Number(wanted),
  silent: true,
  directory,
  configureBuckets: [{ name, configs: [] }],
});
const { port } = await server.run();
console.log(port);
