/**
 * A control plane that starts before its object store, and one whose store refuses it.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { S3Files } from "../../lib/cloud/store/s3/s3_files.ts";
import { withS3 } from "../support/s3_server.ts";
import { serveCloud } from "./program.ts";

/** Runs with a new data folder. */
async function withFolder(run: (data: string) => Promise<void>): Promise<void> {
  const data = await Deno.makeTempDir();
  try {
    await run(data);
  } finally {
    await Deno.remove(data, { recursive: true });
  }
}

Deno.test("a control plane waits for an object store that comes up later", () =>
  withS3((server) =>
    withFolder(async (data) => {
      await server.kill();
      let begun: Promise<void> | undefined;
      const heard = (text: string) => {
        if (text.includes("waiting for the object store")) begun ??= server.start();
      };
      const cloud = await serveCloud(["--data", data, "--files", server.address], { env: server.env, heard });
      try {
        await begun;
        assertStringIncludes(cloud.output(), "the object store is there");
        const answer = await fetch(`${cloud.url}/readyz`);
        assertEquals([answer.status, (await answer.text()).trim()], [200, "ok"]);
      } finally {
        assertEquals(await cloud.stop(), 0);
      }
    })
  ));

Deno.test("a control plane does not wait where the object store refuses its key or has no such bucket", () =>
  withS3((server) =>
    withFolder(async (data) => {
      const endOf = async (files: string, env: Record<string, string>) => {
        const flags = ["--data", data, "--files", files];
        const serving = () => serveCloud(flags, { env: { ...server.env, ...env } });
        return (await assertRejects(serving, Error, "svc-cloud ended")).message;
      };
      const missing = server.address.replace("svc-contents", "no-such-bucket");
      const ends = [await endOf(server.address, { AWS_ACCESS_KEY_ID: "other" }), await endOf(missing, {})];
      assertEquals(ends.filter((end) => end.includes("waiting for")), []);
    })
  ));

Deno.test("contents in an object store are reachable while it runs", () =>
  withS3(async (server) => {
    const files = await S3Files.open(server.client(), { prefix: "machines/one/", olderThanMs: 0 });
    await files.requireReachable();
    await server.kill();
    const error = await assertRejects(() => files.requireReachable(), SvcError);
    assertEquals(error.code, "unavailable");
    await server.start();
    await files.requireReachable();
  }));
