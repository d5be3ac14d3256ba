import { assertEquals, assertThrows } from "@std/assert";
import { createHmac } from "node:crypto";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { within } from "../../../tests/support/until.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { silentLogs } from "../../base/log/log.ts";
import { Secret } from "../../base/secret.ts";
import { openUdp } from "../../base/udp.ts";
import { readStunAnswer, stunRequest } from "../../wire/webrtc/stun.ts";
import { checkedTurnUrl, openStun, turnServers } from "./ice_servers.ts";

Deno.test("turnServers: each caller gets its own TURN credentials, valid for a day", () => {
  const clock = new FakeClock();
  const urls = ["turn:turn.example.com:3478?transport=udp"];
  const { username, credential, ...rest } = turnServers({ urls, secret: new Secret("s") }, "key-1", clock);
  assertEquals(rest, { urls });
  assertEquals(username, `${clock.nowMs() / 1000 + 86_400}:key-1`);
  assertEquals(credential, createHmac("sha1", "s").update(username!).digest("base64"));
});

Deno.test("checkedTurnUrl: refuses text that is not a TURN address", () => {
  for (
    const good of ["turn:a", "turns:a.b:5349?transport=tcp", "turn:[2001:db8::1]:3478", "turn:192.0.2.1"]
  ) {
    assertEquals(checkedTurnUrl(good), good);
  }
  for (
    const bad of ["", "stun:a", "turn:", "turn:a b", "turn://a", "turn:a?transport=sctp", "turn:a:999999"]
  ) {
    assertThrows(() => checkedTurnUrl(bad), SvcError, "--turn");
  }
});

Deno.test("openStun: answers a request with the sender's address, and ignores noise", async () => {
  const stun = await openStun({ host: "127.0.0.1", port: 0 }, silentLogs(new SystemClock()).logger("cloud"));
  const answered = Promise.withResolvers<Uint8Array>();
  const socket = await openUdp((bytes) => answered.resolve(bytes));
  try {
    const { id, bytes } = stunRequest();
    await socket.send("127.0.0.1", stun.port, new Uint8Array(40));
    await socket.send("127.0.0.1", stun.port, bytes);
    const answer = readStunAnswer(await within("an answer", answered.promise));
    assertEquals(answer, { id, seenAs: `127.0.0.1:${socket.port}` });
  } finally {
    socket.close();
    stun.close();
  }
});
