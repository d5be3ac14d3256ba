/**
 * Commands on the programs that agents install, and on the keys that sign them.
 */

import { basename, dirname, join } from "node:path";
import { SvcError } from "../../../lib/base/error.ts";
import { pinnedKey } from "../../../lib/base/release/signature.ts";
import { PROJECT_KEY, SUMS_FILE, SUMS_SIGNATURE_FILE, verifiedSums } from "../../../lib/base/release/sums.ts";
import { ReleaseKeys } from "../../../lib/cloud/packages/release_keys.ts";
import {
  CHANNELS,
  checkProgram,
  PROGRAMS,
  RELEASE_BYTES_MAX,
  RELEASE_PLATFORMS,
  Releases,
} from "../../../lib/cloud/packages/releases.ts";
import { keepFile } from "../../../lib/cloud/store/file_refs.ts";
import { Secrets } from "../../../lib/cloud/store/secrets/secrets.ts";
import { heardPieces } from "../../progress/items_progress.ts";
import { withBar } from "../../progress/progress_bar.ts";
import { shownMs, sizeText } from "../../table.ts";
import {
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  openUpload,
  removeContents,
  unknown,
} from "../command_context.ts";

/** Length of a program's beginning that suffices to recognize its type. */
const HEAD_BYTES = 4096;

export const RELEASE_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "release publish",
    ["NAME", "VERSION", "FILE"],
    `Adds a version of a program that agents install: ${PROGRAMS.join(" or ")}.`,
    [
      {
        name: "platform",
        type: "string",
        default: "linux/amd64",
        value: "OS/ARCH",
        help: RELEASE_PLATFORMS.join(", "),
      },
      { name: "channel", type: "string", default: "none", value: "CHANNEL", help: CHANNELS.join(", ") },
      {
        name: "require-signature",
        type: "bool",
        default: false,
        help:
          "Refuse the file unless SHA256SUMS beside it has its SHA-256, and SHA256SUMS.sig is its signature.",
      },
      {
        name: "signature-key",
        type: "string",
        default: PROJECT_KEY,
        value: "KEY",
        help: "The public key of that signature, in base64, if not the project's.",
      },
    ],
    async (context, [name, version, file], { platform, channel, requireSignature, signatureKey }) => {
      requireOneOf("NAME", name, PROGRAMS);
      requireOneOf("--platform", platform, RELEASE_PLATFORMS);
      requireOneOf("--channel", channel, CHANNELS);
      await new Releases(context.store).check({ name, version, platform, channel });
      const content = await openUpload(context, file);
      const bytes = await context.host.fileSize(file) ?? 0;
      let head = new Uint8Array();
      for await (const piece of context.host.readPieces(file)) {
        head = piece.subarray(0, HEAD_BYTES);
        break;
      }
      checkProgram(head, platform, file, bytes);
      const signed = requireSignature ? await signSum(context, file, signatureKey) : undefined;
      const files = await context.files();
      const on = { kind: "release", id: `${name} ${version} ${platform}` } as const;
      const made = await withBar(context, { what: `of ${basename(file)}`, inBytes: true }, (bar) => {
        const heard = heardPieces(content, bytes, (share) => bar.show(Math.round(share * bytes), bytes));
        return keepFile(context.store, files, heard, RELEASE_BYTES_MAX, async (stored) => {
          if (signed !== undefined && signed !== stored.sha256) {
            const problem = `found SHA-256 ${stored.sha256}, wanted the signed ${signed}`;
            throw new SvcError("permission_denied", `${file}: ${problem}`);
          }
          await context.change(
            "release publish",
            on,
            (sql, nowMs) => new Releases(sql).add({ name, version, platform, channel, file: stored }, nowMs),
          );
          return { name, version, platform, channel, ...stored };
        });
      });
      context.print(made, [
        `${name} ${version} for ${platform}: ${sizeText(made.bytes)}, SHA-256 ${made.sha256}`,
      ]);
      if (channel === "none") {
        const offer = `svc-cloud release channel ${name} ${version} stable`;
        context.host.writeError(`No device follows it, because it is in no channel. To offer it: ${offer}\n`);
      }
    },
  ),
  cloudCommand(
    "release list",
    [],
    "Lists the programs that agents install.",
    [],
    async ({ store, list }) => {
      const all = await new Releases(store).list();
      list("releases", all, {
        columns: [
          { heading: "PROGRAM" },
          { heading: "VERSION", cutTo: 10 },
          { heading: "PLATFORM" },
          { heading: "CHANNEL" },
          { heading: "SIZE", rank: 2 },
          { heading: "PUBLISHED (UTC)", rank: 1 },
        ],
        rows: all.map((one) => [
          one.name,
          one.version,
          one.platform,
          one.channel,
          sizeText(one.bytes),
          shownMs(one.createdMs),
        ]),
        empty: "there is no release yet: svc-cloud release publish NAME VERSION FILE adds one",
      });
    },
  ),
  cloudCommand(
    "release channel",
    ["NAME", "VERSION", "CHANNEL"],
    "Moves a version, on all its platforms, to a channel. Agents that follow the channel install its highest version.",
    [],
    async ({ change, print }, [name, version, channel]) => {
      requireOneOf("CHANNEL", channel, CHANNELS);
      const on = { kind: "release", id: `${name} ${version}` } as const;
      await change("release channel", on, (sql) => new Releases(sql).setChannel(name, version, channel));
      print({ name, version, channel }, [`${name} ${version} is in ${channel}`]);
    },
  ),
  cloudCommand(
    "release delete",
    ["NAME", "VERSION"],
    "Removes a version on all its platforms.",
    [],
    async (context, [name, version]) => {
      const on = { kind: "release", id: `${name} ${version}` } as const;
      const gone = await context.change(
        "release delete",
        on,
        (sql) => new Releases(sql).delete(name, version),
      );
      await removeContents(context, gone);
      context.print({ name, version }, []);
    },
  ),
  cloudCommand(
    "release keys",
    [],
    "Lists the public keys of releases and packages, newest last: agents pin one of them.",
    [],
    async ({ secrets, list }) => {
      const all = new ReleaseKeys(await Secrets.open(secrets)).list();
      const keys = all.map(({ public_key: publicKey, ...one }) => ({ ...one, publicKey }));
      list("keys", keys, {
        columns: [{ heading: "ID", cutTo: 8 }, { heading: "PUBLIC KEY" }, { heading: "MADE (UTC)", rank: 1 }],
        rows: all.map((one) => [one.id, one.public_key, shownMs(one.created_ms)]),
        empty: "there is no key yet: svc-cloud serve makes one",
      });
    },
  ),
  cloudCommand(
    "release rotate-key",
    [],
    "Replaces the key that signs releases and packages; the old key signs the new one, and then nothing more.",
    [],
    async ({ secrets, change, print }) => {
      const key = await new ReleaseKeys(await Secrets.open(secrets)).rotate();
      await change("release rotate-key", { kind: "release", id: key.id }, () => Promise.resolve());
      print(key, [`${key.id}  ${key.public_key}`]);
    },
  ),
];

/** The SHA-256 that the signed sums beside a file have for it. */
async function signSum({ host }: CloudCommandContext, file: string, key: string): Promise<string> {
  const sums = join(dirname(file), SUMS_FILE);
  const text = await host.readTextFile(sums);
  const signature = await host.readFile(join(dirname(file), SUMS_SIGNATURE_FILE));
  const found = verifiedSums(text, signature, pinnedKey(key).public_key).get(basename(file));
  if (found !== undefined) return found;
  throw new SvcError("permission_denied", `${sums} is signed, and has no line for ${basename(file)}`);
}

function requireOneOf(what: string, found: string, wanted: readonly string[]): void {
  if (!wanted.includes(found)) throw unknown(what, found, wanted);
}
