// Serves a folder as an S3-compatible store, with the key S3RVER and the secret S3RVER: node s3_server.mjs FOLDER BUCKET
import S3rver from "s3rver";

const [directory, name] = process.argv.slice(2);
const server = new S3rver({
  address: "127.0.0.1",
  port: 0,
  silent: true,
  directory,
  configureBuckets: [{ name, configs: [] }],
});
const { port } = await server.run();
console.log(port);
