// Serves a folder as an S3-compatible store, with the key S3RVER and the secret S3RVER: node s3_server.mjs FOLDER BUCKET [PORT]
import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { buffer } from "node:stream/consumers";

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

// An object of S3 is whole or not there; this server writes into the object that others read, and answers before the end.
const { store } = server;
store.putObject = async ({ bucket, key, content, metadata }) => {
  const bytes = Buffer.isBuffer(content) ? content : await buffer(content);
  const md5 = createHash("md5").update(bytes).digest("hex");
  const path = store.getResourcePath(bucket, key, "object");
  const unfinished = `${path}.${randomUUID()}`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(unfinished, bytes);
  await store.putMetadata(bucket, key, metadata, md5);
  await rename(unfinished, path);
  return { size: bytes.length, md5 };
};
store.copyObject = async (fromBucket, fromKey, bucket, key, replacement) => {
  const metadata = replacement ?? await store.getMetadata(fromBucket, fromKey);
  const content = await readFile(store.getResourcePath(fromBucket, fromKey, "object"));
  await store.putObject({ bucket, key, content, metadata });
  return await store.getMetadata(bucket, key);
};

const { port } = await server.run();
console.log(port);
