import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { ConfigurationService } from "../../../proto/gen/machine_config_pb.ts";
import { SvcError } from "../../base/error.ts";
import { Registry } from "../../resource/registry.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { client as clientOf } from "../../wire/rpc/channel.ts";
import { type Peer, ServiceTable } from "../../wire/rpc/service.ts";
import { configurationService, type ConfigurationServiceParts } from "./configuration_service.ts";
import { ConfigEditor } from "./editor.ts";

const PATH = "/etc/machine.json";
const TCP = { remotePort: 4, localAddress: "127.0.0.1", localPort: 8080 };
const OWN: Peer = { kind: "grpc", remoteAddress: "127.0.0.1", ...TCP };

/** The reason why a caller may only read, and the code of its attempt to change. */
async function asCaller(
  peer: Peer,
  change: Partial<ConfigurationServiceParts> & { readonly guarded?: boolean } = {},
): Promise<[reason: string, code: string]> {
  const { guarded = false, ...parts } = change;
  const registry = new Registry([], []);
  const clock = new FakeClock();
  const host = new FakeHost({ files: { [PATH]: new TextEncoder().encode('{"components": []}') } });
  const editor = new ConfigEditor({ path: PATH, registry, host, clock });
  const anybody = { checkLoopback: () => Promise.resolve() };
  const table = new ServiceTable(clock, [(ctx) => void Object.defineProperty(ctx, "peer", { value: peer })]);
  table.add(configurationService({ editor, registry, host: anybody, untrusted: false, ...parts }, guarded));
  const client = clientOf(ConfigurationService, memoryChannel(table));
  const { readOnlyReason, text, revision } = await client.getConfiguration({});
  const changed = text.replace("[]", "[ ]");
  const code = await client.applyConfiguration({ text: changed, revision }).then(
    () => "ok",
    (error) => SvcError.from(error).code,
  );
  return [readOnlyReason, code];
}

Deno.test("ConfigurationService: who may change the file", async () => {
  assertEquals(await asCaller(OWN), ["", "ok"]);
  assertEquals(await asCaller({ kind: "webrtc", signaledFrom: "10.0.0.9" }, { guarded: true }), ["", "ok"]);
  const refused: [Peer, Parameters<typeof asCaller>[1], string][] = [
    [{ ...OWN, remoteAddress: "10.0.0.9" }, {}, "this machine has no keys"],
    [{ kind: "webrtc", remoteAddress: "127.0.0.1" }, {}, "this machine has no keys"],
    [{ kind: "grpc" }, {}, "this machine has no keys"],
    [OWN, { untrusted: true }, "-untrusted-env"],
    [OWN, { managedBy: "https://cloud.example", guarded: true }, "comes from https://cloud.example"],
    [
      OWN,
      { host: { checkLoopback: () => Promise.reject(new SvcError("permission_denied", "another user")) } },
      "another user; add API keys",
    ],
  ];
  for (const [peer, change, logged] of refused) {
    const [reason, code] = await asCaller(peer, change);
    assertEquals([reason.includes(logged), code], [true, "permission_denied"], reason);
  }
});

Deno.test("ConfigurationService: an endless text is refused", async () => {
  const registry = new Registry([], []);
  const host = new FakeHost({ files: { [PATH]: new TextEncoder().encode("{}") } });
  const editor = new ConfigEditor({ path: PATH, registry, host, clock: new FakeClock() });
  const table = new ServiceTable(new FakeClock(), []);
  table.add(configurationService({ editor, registry, host, untrusted: false }, true));
  const client = clientOf(ConfigurationService, memoryChannel(table));
  await assertRejects(
    () => client.checkConfiguration({ text: " ".repeat(5_000_000) }),
    SvcError,
    "wanted at most",
  );
});
