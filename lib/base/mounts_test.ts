import { assertEquals } from "@std/assert";
import { fileSystemOf } from "./mounts.ts";

const MOUNTS = [
  "overlay / overlay rw 0 0",
  "/dev/sda1 /var ext4 rw 0 0",
  "nas:/robots /var/lib/svc\\040cloud nfs4 rw 0 0",
  "//nas/share /mnt cifs rw 0 0",
  "/dev/sdb1 /mnt ext4 rw 0 0",
].join("\n");

Deno.test("fileSystemOf: the deepest mount holds a folder, and of several at one place the last", () => {
  const found = [
    "/",
    "/opt",
    "/variable",
    "/var/lib",
    "/var/lib/svc cloud",
    "/var/lib/svc cloud/data",
    "/mnt/a",
  ]
    .map((folder) => fileSystemOf(folder, MOUNTS));
  assertEquals(found, ["overlay", "overlay", "overlay", "ext4", "nfs4", "nfs4", "ext4"]);
  assertEquals(fileSystemOf("/opt", ""), "");
});
