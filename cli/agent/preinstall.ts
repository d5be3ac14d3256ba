/**
 * `svc-agent preinstall`: puts the agent into the root file system of an image, a mounted one or a tar file, so that a
 * device has it at its first start.
 *
 * Writes only below the given root: a link in the image that leads out of it is refused. Nothing of the image runs.
 */

import { dirname } from "node:path";
import { parseCredentials, writeCredentials } from "../../lib/agent/settings/credentials.ts";
import { decideSettings, readDefaults } from "../../lib/agent/settings/settings.ts";
import { agentUnit } from "../../lib/agent/system/service_unit.ts";
import { type Commands, SystemCommands } from "../../lib/agent/system/commands.ts";
import { installService } from "../../lib/agent/system/systemd.ts";
import { installLoader } from "../../lib/agent/update/loader.ts";
import { notAProgram } from "../../lib/base/release/program_head.ts";
import { readHead } from "../../lib/base/files/head.ts";
import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { DenoHost } from "../../lib/base/host_deno.ts";
import type { Flag, Values } from "../flags.ts";
import { requireRoot } from "../install.ts";
import { openLogs } from "../logs.ts";
import { VERSION } from "../version.ts";
import { copyToCache, updaterOf } from "./updater.ts";

export const PREINSTALL_FLAGS = [
  fileFlag("program", "The svc-agent to install, for another processor for instance; by default this one."),
  {
    name: "program-version",
    type: "string",
    default: "",
    value: "VERSION",
    help: "The version of --program.",
  },
  fileFlag("credentials", "The machine's credentials; without them the device waits for its setup."),
  fileFlag("image-defaults", "The manufacturer's settings."),
  fileFlag("keys", "The public keys of releases (release_keys.json)."),
  fileFlag("authorities", "Further authorities (PEM) that the device trusts."),
] as const satisfies readonly Flag[];

export type PreinstallFlags = Values<typeof PREINSTALL_FLAGS>;

function fileFlag<const N extends string>(name: N, help: string) {
  return { name, type: "string", default: "", value: "FILE", help } as const;
}

/** The places on the device. */
const DEVICE_PATHS = { base: "/opt/svc", config: "/etc/svc.json", defaults: "/etc/svc-defaults.json" };
const KEYS = `${DEVICE_PATHS.base}/etc/release_keys.json`;
const AUTHORITIES = "/etc/svc-ca.pem";
const RELEASES = ["/etc/os-release", "/usr/lib/os-release"];
const SYSTEMD = ["/lib/systemd/systemd", "/usr/lib/systemd/systemd"];
/** Every folder in which a file is written, replaced or removed. */
const FOLDERS = [
  "/etc/systemd/system/multi-user.target.wants",
  "/usr/local/lib/systemd/system",
  ...["bin", "cache", "etc", "state"].map((name) => `${DEVICE_PATHS.base}/${name}`),
];
const HEAD_BYTES = 4096;
const TAR_MS = 10 * 60_000;
/** First bytes of compressed tar files, which tar cannot append to. */
const COMPRESSED = [[0x1f, 0x8b], [0xfd, 0x37, 0x7a], [0x28, 0xb5, 0x2f, 0xfd], [0x42, 0x5a, 0x68]];

/** Returns the exit code. Throws for a target that is no root file system, and for unusable files. */
export async function preinstall(options: PreinstallFlags, host: DenoHost, target: string): Promise<number> {
  const clock = new SystemClock();
  const program = options.program || ownProgram();
  const version = await readVersion(program, options, host, clock);
  await requireUsable(options, host);
  const agent: Preinstalled = { program, version, options, host, clock };
  const found = await host.stat(target);
  if (found?.kind === "folder") {
    requireRoot("write into an image", host);
    await requireImage(host, target);
    await fill(target, agent);
  } else if (found?.kind === "file") await append(target, agent);
  else throw new SvcError("not_found", `there is no folder and no tar file ${target}`);
  const waits = options.credentials === "" ? "; the device waits for its setup" : "";
  host.write(`svc-agent ${version} is in ${target}${waits}\n`);
  return 0;
}

function ownProgram(): string {
  if (Deno.build.standalone) return Deno.execPath();
  throw new SvcError(
    "failed_precondition",
    "this svc-agent runs from source, which no image can take: give the executable for the device with --program " +
      "(deno task compile --target linux-arm64 svc-agent makes it)",
  );
}

/** The version of the program; of one for another processor only the caller knows it. */
async function readVersion(
  program: string,
  { program: given, programVersion }: PreinstallFlags,
  host: DenoHost,
  clock: Clock,
): Promise<string> {
  if (given === "") return VERSION;
  const head = await readHead(host, program, HEAD_BYTES);
  const wrong = ["x64", "arm64"].map((arch) => notAProgram(head, { os: "linux", arch }));
  if (!wrong.includes(undefined)) throw new SvcError("invalid_argument", `--program ${program}: ${wrong[0]}`);
  if (programVersion !== "") return programVersion;
  const output = await new SystemCommands(host, clock).run(program, ["--version"]).catch(() => "");
  const [, version] = /^svc-agent\s+v?(\d[\w.+-]*)/.exec(output) ?? [];
  if (version !== undefined) return version;
  throw new SvcError(
    "invalid_argument",
    `${program} does not run here: give its version with --program-version`,
  );
}

/** Throws for a file that the device could not use: nobody sees an image's log. */
async function requireUsable(options: PreinstallFlags, host: DenoHost): Promise<void> {
  const { credentials, imageDefaults, keys, authorities } = options;
  if (credentials !== "") parseCredentials(await host.readFile(credentials), credentials);
  if (imageDefaults !== "") {
    if (!await host.findFile(imageDefaults)) throw new SvcError("not_found", `there is no ${imageDefaults}`);
    const { defaults, problems } = await readDefaults(host, imageDefaults);
    const all = [...problems, ...decideSettings({ defaults }).problems];
    const errors = all.filter(({ severity }) => severity === "error");
    if (errors.length > 0) {
      const texts = errors.map(({ path, message }) => `${path}: ${message}`);
      throw new SvcError("invalid_argument", `${imageDefaults}: ${texts.join("; ")}`);
    }
  }
  const wants = [
    [keys, '"public_key"', "a list of public keys"],
    [authorities, "BEGIN CERTIFICATE", "PEM"],
  ] as const;
  for (const [path, mark, wanted] of wants) {
    if (path === "" || (await host.readTextFile(path)).includes(mark)) continue;
    throw new SvcError("invalid_argument", `${path}: wanted ${wanted}`);
  }
}

/** Throws unless the folder is a Linux root file system with systemd whose own folders are inside it. */
async function requireImage(host: DenoHost, root: string): Promise<void> {
  const marks = await Promise.all(RELEASES.map((path) => host.stat(`${root}${path}`, { links: true })));
  if (!marks.some(Boolean)) {
    throw new SvcError(
      "failed_precondition",
      `${root} is no root file system: found no ${RELEASES[0]} in it`,
    );
  }
  const systemd = await Promise.all(SYSTEMD.map((path) => host.stat(`${root}${path}`, { links: true })));
  if (!systemd.some(Boolean)) throw withoutSystemd(root);
  const inside = await host.realPath(root);
  for (const folder of FOLDERS) await requireInside(host, root, inside, folder);
}

function withoutSystemd(target: string): SvcError {
  return new SvcError("failed_precondition", `${target} has no systemd, which starts the agent`);
}

/** Throws if a link on the way to the folder leads out of the image, or to nothing in it. */
async function requireInside(host: DenoHost, root: string, inside: string, folder: string): Promise<void> {
  const present = [];
  for (const path of stepsTo(folder)) {
    if (await host.stat(`${root}${path}`, { links: true })) present.push(`${root}${path}`);
  }
  for (const path of present) {
    const real = await host.realPath(path).catch(() => "");
    if (real.startsWith(`${inside.replace(/\/$/, "")}/`)) continue;
    throw new SvcError("permission_denied", `${path} is a link that leads out of the image`);
  }
}

/** A path and the folders above it, the highest first: `/a`, `/a/b`. */
function stepsTo(path: string): string[] {
  const names = path.split("/").slice(1);
  return names.map((_, at) => `/${names.slice(0, at + 1).join("/")}`);
}

/** What an image gets, and the means. */
interface Preinstalled {
  readonly program: string;
  readonly version: string;
  readonly options: PreinstallFlags;
  readonly host: DenoHost;
  readonly clock: Clock;
}

/** Writes everything below `root`. */
async function fill(root: string, agent: Preinstalled): Promise<void> {
  const { program, version, options, host, clock } = agent;
  using open = openLogs("svc-agent", "", host, clock);
  const { logs } = open;
  const base = `${root}${DEVICE_PATHS.base}`;
  await host.makeFolder(base, { mode: 0o755 });
  const updater = updaterOf({ base, files: host, host, clock, name: "svc-agent", manages: true, logs });
  await updater.open();
  await updater.install(await copyToCache(host, updater, base, program, version), version);
  await installLoader(host, base);
  const unit = agentUnit({
    base: DEVICE_PATHS.base,
    configPath: DEVICE_PATHS.config,
    defaultsPath: DEVICE_PATHS.defaults,
  });
  const logger = logs.logger("svc-agent");
  await installService(unit, { files: host, commands: NO_COMMANDS, logger, root });
  const { credentials, imageDefaults, keys, authorities } = options;
  if (credentials !== "") {
    await host.makeFolder(dirname(`${root}${DEVICE_PATHS.config}`));
    await writeCredentials(host, `${root}${DEVICE_PATHS.config}`, await host.readTextFile(credentials));
  }
  for (
    const [from, to] of [[imageDefaults, DEVICE_PATHS.defaults], [keys, KEYS], [
      authorities,
      AUTHORITIES,
    ]] as const
  ) {
    if (from === "") continue;
    await host.makeFolder(dirname(`${root}${to}`));
    await host.copyFile(from, `${root}${to}`, { mode: 0o644 });
  }
}

/** No systemd runs in an image, so there is none to tell about a new unit. */
const NO_COMMANDS: Commands = {
  try: () => Promise.resolve({ code: 0, output: "" }),
  run: () => Promise.resolve(""),
};

/** Appends everything to a tar file, whose later files replace earlier ones. */
async function append(tar: string, agent: Preinstalled): Promise<void> {
  const { host, clock } = agent;
  const head = await readHead(host, tar, HEAD_BYTES);
  if (COMPRESSED.some((mark) => mark.every((byte, at) => head[at] === byte))) {
    throw new SvcError(
      "invalid_argument",
      `${tar} is compressed: unpack it (gunzip, unxz, unzstd), and pack it again`,
    );
  }
  const commands = new SystemCommands(host, clock);
  // The exit code tells of a name that is not there.
  const { output: list } = await commands.try(
    "tar",
    ["-tf", tar, "--wildcards", ...RELEASES.map((path) => `*${path.slice(1)}`)],
    { timeoutMs: TAR_MS },
  );
  const [, prefix] = /^(\.?\/?)(?:etc|usr\/lib)\/os-release$/m.exec(list) ?? [];
  if (prefix === undefined) {
    throw new SvcError(
      "failed_precondition",
      `${tar} is no tar file of a root file system: found no etc/os-release`,
    );
  }
  await requireTar(tar, prefix, commands);
  const folder = await host.temporaryFolder("svc-image-");
  try {
    await fill(folder, agent);
    // Folders stay as they are in the image: only files and links are appended.
    const listed = `cd "$1" && find . \\( -type f -o -type l \\) -print0 | sed -z "s,^\\./,," | sort -z | ` +
      'tar -rf "$2" --null -T - --no-recursion --owner=0 --group=0 --transform="flags=rSH;s,^,$3,"';
    await commands.run("sh", ["-c", listed, "sh", folder, await host.realPath(tar), prefix], {
      timeoutMs: TAR_MS,
    });
  } finally {
    await host.removeTree(folder);
  }
}

/** A line of `tar -tv` about a link: its name, and what it leads to. */
const TAR_LINK = /^l.*? \S+ \S+ (\S+) -> (.*)$/gm;

/** Throws for an image without systemd, and for one in which a link leads away from what is appended. */
async function requireTar(tar: string, prefix: string, commands: Commands): Promise<void> {
  const folders = [...new Set(FOLDERS.flatMap(stepsTo))];
  const names = [...SYSTEMD, ...folders].map((path) => `${prefix}${path.slice(1)}`);
  // The exit code tells of names that are not there.
  const { output } = await commands.try(
    "tar",
    ["-tvf", tar, "--quoting-style=escape", "--no-recursion", "--", ...names],
    { timeoutMs: TAR_MS },
  );
  const listed = output.split("\n").filter((line) => !line.startsWith("tar: "));
  if (!listed.some((line) => / \S*lib\/systemd\/systemd( -> .*)?$/.test(line))) throw withoutSystemd(tar);
  for (const [, name = "", target = ""] of listed.join("\n").matchAll(TAR_LINK)) {
    if (SYSTEMD.some((path) => name.endsWith(path)) || isBelow(target)) continue;
    throw new SvcError(
      "failed_precondition",
      `${tar}: ${name} is a link to ${target}, which tar does not follow: unpack the image, and name its folder`,
    );
  }
}

/** Whether tar, when it unpacks an image, makes a link with this target before the files behind it. */
function isBelow(target: string): boolean {
  return !target.startsWith("/") && !target.split("/").includes("..");
}
