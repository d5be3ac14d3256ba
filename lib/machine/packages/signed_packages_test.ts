/**
 * Packages on a device with pinned keys: allowed ones, and attacks by a false control plane or mirror.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { createHash } from "node:crypto";
import { PackageSchema } from "../../../proto/gen/packages_pb.ts";
import { packed } from "../../base/files/archive.ts";
import { SystemClock } from "../../base/clock.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { AcceptedKeys } from "../../base/release/accepted_keys.ts";
import { signChannel } from "../../base/release/channel.ts";
import { newReleaseKey, type ReleaseStatement, signRelease } from "../../base/release/signature.ts";
import { silentLogs } from "../../base/log/log.ts";
import { create } from "../../wire/rpc/proto.ts";
import { packageFolder } from "../config/placeholder.ts";
import type { PackageConfig } from "../config/settings.ts";
import { MachinePackages } from "./packages.ts";

const ID = "acme:weather";
const GOOD = await archive("good");
const BAD = await archive("bad");
const OURS = newReleaseKey(1);
const NEXT = newReleaseKey(2, OURS.privateKeyPem);
/** Of another organization's control plane. */
const THEIRS = newReleaseKey(3);

/** The control plane's answers and downloads. */
interface Offer {
  /** In its answer about the package. */
  readonly version: string;
  readonly sha256: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly signed: Partial<ReleaseStatement>;
  readonly signer: string;
  /** Of the control plane's word for the channel. */
  readonly word?: { readonly issued_ms: number };
  /** In place of a signature. */
  readonly instead?: () => Response;
}

interface Attack {
  readonly does: string;
  readonly wanted?: string;
  readonly offer: Partial<Offer>;
  readonly error: RegExp;
}

const ATTACKS: readonly Attack[] = [
  {
    does: "changes the bytes",
    offer: { bytes: BAD },
    error: /the download has SHA-256/,
  },
  {
    does: "changes the bytes and their checksum",
    offer: { bytes: BAD, sha256: sum(BAD) },
    error: /the signature is for another file: found sum/,
  },
  {
    does: "changes the bytes, the checksum and the signed checksum",
    offer: {
      bytes: BAD,
      sha256: sum(BAD),
      instead: () => {
        const sig = signRelease(statement(), OURS.privateKeyPem);
        return Response.json({ ...sig, statement: { ...sig.statement, sha256: sum(BAD) } });
      },
    },
    error: /the statement has been changed/,
  },
  {
    does: "delivers another version than it names",
    offer: { signed: { version: "0.9.0" } },
    error: /found version 0.9.0, wanted 1.0.0/,
  },
  {
    does: "replays an old signed version as the newest version",
    wanted: "latest",
    offer: { version: "2.0.0", signed: { version: "1.0.0" } },
    error: /found version 1.0.0, wanted 2.0.0/,
  },
  {
    does: "repeats an old word that a version is the newest one",
    wanted: "latest",
    offer: { word: { issued_ms: Date.UTC(2025, 0, 1) } },
    error: /"latest" of acme:weather expired on 2025-01-08/,
  },
  {
    does: "answers with a version outside the wanted range",
    wanted: "^1",
    offer: { version: "2.0.0", signed: { version: "2.0.0" } },
    error: /the control plane gives version "2.0.0", wanted \^1/,
  },
  {
    does: "delivers the package of another organization",
    offer: { signed: { name: "evil:weather" } },
    error: /found name evil:weather, wanted acme:weather/,
  },
  {
    does: "delivers a package signed for another platform",
    offer: { signed: { platform: "plan9/mips" } },
    error: /found platform plan9\/mips, wanted/,
  },
  {
    does: "signs with the key of another organization",
    offer: { signer: THEIRS.privateKeyPem },
    error: /is of key/,
  },
  {
    does: "sends more bytes than are signed",
    offer: { signed: { size: 5 } },
    error: /larger than 5 bytes/,
  },
  {
    does: "has no signature",
    offer: { instead: () => new Response("there is nothing", { status: 404 }) },
    error: /refused with 404/,
  },
  {
    does: "sends an endless signature",
    offer: { instead: () => new Response(new Uint8Array(3_000_000)) },
    error: /the signature is larger than/,
  },
  {
    does: "sends a signature that is not JSON",
    offer: { instead: () => new Response("{") },
    error: /the signature is not JSON/,
  },
  {
    does: "sends a signature without a statement",
    offer: { instead: () => Response.json({ statement: 1 }) },
    error: /the signature file is broken/,
  },
];

for (const { does, wanted = "1.0.0", offer, error } of ATTACKS) {
  Deno.test(`pinned keys: no package is unpacked if the control plane ${does}`, async () => {
    await using bench = await Bench.open(offer);
    await bench.pin(OURS.key.public_key);
    assertMatch(await bench.fetch(wanted), error);
    assertEquals(await bench.unpacked(), []);
  });
}

Deno.test("pinned keys: a package with their signature is unpacked, and a successor key replaces the old key", async () => {
  await using bench = await Bench.open({});
  await bench.pin(OURS.key.public_key);
  assertEquals(await bench.fetch("1.0.0"), "");
  assertEquals(await bench.text("1.0.0"), "good");
  const next = { version: "1.1.0", signed: { version: "1.1.0" }, signer: NEXT.privateKeyPem };
  bench.offer(next);
  assertEquals(await bench.fetch("latest"), "");
  assertEquals(await bench.text("latest"), "good");
  assertEquals(await bench.pinned(), [NEXT.key.public_key]);
  bench.offer({ ...next, version: "1.2.0", signed: { version: "1.2.0" }, signer: OURS.privateKeyPem });
  assertMatch(await bench.fetch("^1"), /is of key/);
});

Deno.test("without pinned keys, the checksum is enough and no signature is requested", async () => {
  await using bench = await Bench.open({ instead: () => new Response("", { status: 404 }) });
  assertEquals(await bench.fetch("1.0.0"), "");
  assertEquals(await bench.text("1.0.0"), "good");
  assertEquals(bench.asked.filter((path) => path.includes(".sig")), []);
});

Deno.test("an unreadable release_keys.json stops every package", async () => {
  await using bench = await Bench.open({});
  await bench.pin("no key");
  assertMatch(await bench.fetch("1.0.0"), /wanted a list of public keys in base64/);
  assertEquals(await bench.unpacked(), []);
});

class Bench {
  readonly asked: string[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #packages: MachinePackages;
  #offer!: Offer;

  private constructor(readonly home: string) {
    const clock = new SystemClock();
    const host = new DenoHost();
    this.#server = Deno.serve({ port: 0, hostname: "localhost", onListen: () => {} }, (request) => {
      return this.#answer(new URL(request.url));
    });
    const url = `http://localhost:${this.#server.addr.port}/weather.tar.gz?expires=1`;
    this.#packages = new MachinePackages({
      home,
      client: {
        partId: "part",
        package: () => {
          const { version, sha256: checksum } = this.#offer;
          return Promise.resolve(create(PackageSchema, { url, checksum, info: { version } }));
        },
      },
      keys: new AcceptedKeys(this.#keys, { files: host, clock, historyPath: `${home}/accepted.json` }),
      host,
      clock,
      logger: silentLogs(clock).logger("packages"),
    });
  }

  static async open(offer: Partial<Offer>): Promise<Bench> {
    const bench = new Bench(await Deno.makeTempDir({ prefix: "svc-signed-" }));
    bench.offer(offer);
    return bench;
  }

  offer(offer: Partial<Offer>): void {
    this.#offer = {
      version: "1.0.0",
      sha256: sum(GOOD),
      bytes: GOOD,
      signed: {},
      signer: OURS.privateKeyPem,
      ...offer,
    };
  }

  async pin(...keys: string[]): Promise<void> {
    await Deno.writeTextFile(this.#keys, JSON.stringify(keys));
  }

  async pinned(): Promise<unknown> {
    return JSON.parse(await Deno.readTextFile(this.#keys));
  }

  /** Why the package cannot be had; empty if it is there. */
  async fetch(version: string): Promise<string> {
    await this.#packages.fetch([wanted(version)]);
    return this.#packages.statuses()[0].error ?? "";
  }

  async text(version: string): Promise<string> {
    return await Deno.readTextFile(`${packageFolder(this.home, wanted(version))}/what`);
  }

  async unpacked(): Promise<string[]> {
    const folder = `${this.home}/packages/data/module`;
    const names = await Deno.stat(folder).then(() => Deno.readDir(folder), () => []);
    return (await Array.fromAsync(names)).map(({ name }) => name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#packages.close();
    await this.#server.shutdown();
    await Deno.remove(this.home, { recursive: true });
  }

  get #keys(): string {
    return `${this.home}/release_keys.json`;
  }

  #answer({ pathname, searchParams }: URL): Response {
    this.asked.push(pathname);
    const { bytes, signed, signer, instead } = this.#offer;
    if (pathname === "/releases/keys.json") return Response.json({ keys: [OURS.key, NEXT.key, THEIRS.key] });
    if (pathname.endsWith(".channel")) {
      const { version, sha256, word } = this.#offer;
      const [wanted, platform] = [searchParams.get("wanted")!, searchParams.get("platform")!];
      const current = { name: ID, wanted, platform, version, sha256 };
      return Response.json(signChannel(current, word?.issued_ms ?? Date.now(), signer));
    }
    if (!pathname.endsWith(".sig")) return new Response(bytes);
    assertEquals([searchParams.get("as"), searchParams.get("expires")], [ID, "1"]);
    return instead?.() ?? Response.json(signRelease({ ...statement(), ...signed }, signer));
  }
}

function statement(): ReleaseStatement {
  return { name: ID, version: "1.0.0", platform: "", sha256: sum(GOOD), size: GOOD.length, signed_ms: 1 };
}

function wanted(version: string): PackageConfig {
  return { name: "m", package: ID, version, type: "module" };
}

function sum(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

async function archive(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const content = new TextEncoder().encode(text);
  const pieces = await Array.fromAsync(packed([{ path: "what", bytes: content.length, content: [content] }]));
  return new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
}
