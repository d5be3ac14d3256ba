import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SvcError } from "../../../base/error.ts";
import { findS3Credentials, parseS3Address } from "./s3_address.ts";

const from = (values: Record<string, string>) => (name: string) => values[name];
const noFiles = { readTextFile: () => Promise.reject(new SvcError("not_found", "there is no such file")) };

Deno.test("parseS3Address: bucket, prefix, and what the environment adds", () => {
  assertEquals(parseS3Address("s3://robots", from({})), {
    bucket: "robots",
    prefix: "",
    endpoint: undefined,
    region: "us-east-1",
  });
  const env = from({ AWS_ENDPOINT_URL: "https://other", AWS_REGION: "eu-west-1" });
  assertEquals(parseS3Address("s3://robots/a/b.c/?endpoint=http://127.0.0.1:9000/", env), {
    bucket: "robots",
    prefix: "a/b.c/",
    endpoint: "http://127.0.0.1:9000",
    region: "eu-west-1",
  });
  assertEquals(parseS3Address("s3://robots?region=x-2", env).region, "x-2");
});

Deno.test("parseS3Address: refuses what would lead elsewhere", () => {
  const wrong = [
    "s3://",
    "s3://Upper",
    "s3://a",
    "s3://user:secret@robots",
    "s3://robots/../other",
    "s3://robots/a//b",
    "s3://robots/a%2e",
    "s3://robots?endpoint=file:///etc",
    "s3://robots?endpoint=http://user:secret@host",
    "s3://robots?endpoint=http://host/?x=1",
    "s3://robots?region=a/b",
    "s3://robots?acl=public",
    "s3://robots#x",
  ];
  for (const address of wrong) {
    assertThrows(() => parseS3Address(address, from({})), SvcError, "wanted s3://");
  }
});

Deno.test("findS3Credentials: the environment, or a section of the file", async () => {
  const both = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret", AWS_SESSION_TOKEN: "session" };
  assertEquals(await findS3Credentials(from(both), noFiles), {
    accessKeyId: "id",
    secretAccessKey: "secret",
    sessionToken: "session",
  });

  const text =
    "[default]\r\naws_access_key_id = one\r\naws_secret_access_key = a=b/c\n# aws_session_token = no\n" +
    "[robots]\naws_access_key_id=two\n";
  const read: string[] = [];
  const files = { readTextFile: (path: string) => Promise.resolve((read.push(path), text)) };
  assertEquals(await findS3Credentials(from({ HOME: "/home/me" }), files), {
    accessKeyId: "one",
    secretAccessKey: "a=b/c",
    sessionToken: undefined,
  });
  assertEquals(read, ["/home/me/.aws/credentials"]);
  const other = { AWS_SHARED_CREDENTIALS_FILE: "/run/keys", AWS_PROFILE: "robots" };
  const error = await assertRejects(() => findS3Credentials(from(other), files), SvcError);
  assertEquals(
    error.message,
    "/run/keys: the section [robots] lacks aws_access_key_id or aws_secret_access_key",
  );
  await assertRejects(() => findS3Credentials(from({}), noFiles), SvcError, "set AWS_ACCESS_KEY_ID");
});
