/**
 * Debian packages of single programs, made by `dpkg-deb`.
 *
 * A package installs the program, its manual and notices, and its unit of systemd, which the user enables. There is
 * none of svc-agent: it updates itself, which an entry in dpkg's database would contradict.
 */

import { runtimeUnit } from "../../../lib/agent/system/runtime_service.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { cloudUnit } from "../../cloud/serve/install.ts";
import { type Executable, execute, ROOT, type Target } from "../compiler.ts";
import { readManual } from "./archive.ts";
import { type DistributedBuild, revisionTime } from "./build.ts";

/** Debian's names of processors. */
const PROCESSORS: { readonly [target: string]: string } = { "linux-x64": "amd64", "linux-arm64": "arm64" };

const DESCRIPTIONS: { readonly [program: string]: string } = {
  "svc-server": "machine runtime: components, services and modules over gRPC and WebRTC",
  "svc-micro-server": "machine runtime for small boards, without WebRTC and modules",
  "svc-cloud": "self-hosted control plane for machines that run svc-server",
  "svc-ml": "submits, follows and manages training jobs",
};

/** Units of systemd, by program. The user enables them. */
const UNITS: { readonly [program: string]: string } = {
  "svc-server": runtimeUnit("/etc/svc.json", "/usr/bin/svc-server").text,
  "svc-cloud": cloudUnit(["serve"], "/usr/bin/svc-cloud").text,
};

/** Users of units, as systemd-sysusers makes them. */
const USERS: { readonly [program: string]: string } = {
  "svc-cloud": 'u svc-cloud - "svc-cloud" /var/lib/svc-cloud\n',
};

/** What the runtime in every executable is linked with. */
const DEPENDS = "libc6 (>= 2.31), libgcc-s1, libstdc++6";

const PROGRAM_MODE = 0o755;

/** Whether Debian packages are made of `program` for `target`. */
export function isDebian(program: Executable, target: Target): boolean {
  return target.name in PROCESSORS && program.name in DESCRIPTIONS;
}

/**
 * Makes `NAME_VERSION_PROCESSOR.deb` of the executable at `path` in `folder`; returns its file name. Throws `unavailable`
 * where `dpkg-deb` is missing.
 */
export async function makeDeb(
  { name }: Executable,
  { name: target }: Target,
  { path, notices, version, folder }: DistributedBuild,
): Promise<string> {
  const processor = PROCESSORS[target] ?? target;
  const file = `${name}_${version}_${processor}.deb`;
  const tree = `${folder}/.deb`;
  await Deno.remove(tree, { recursive: true }).catch(() => {});

  await copyTo(path, `${tree}/usr/bin/${name}`, PROGRAM_MODE);
  await copyTo(`${ROOT}LICENSE`, `${tree}/usr/share/doc/${name}/copyright`);
  await copyTo(notices, `${tree}/usr/share/doc/${name}/THIRD_PARTY_NOTICES`);
  const manual = await readManual(name);
  if (manual) await copyTo(manual, `${tree}/usr/share/man/man1/${name}.1`);
  const unit = UNITS[name];
  if (unit !== undefined) await writeTo(`${tree}/usr/lib/systemd/system/${name}.service`, unit);
  const user = USERS[name];
  if (user !== undefined) await writeTo(`${tree}/usr/lib/sysusers.d/${name}.conf`, user);

  await writeTo(`${tree}/DEBIAN/control`, control(name, version, processor));
  if (unit !== undefined) {
    await writeTo(`${tree}/DEBIAN/postinst`, afterInstallation(name), PROGRAM_MODE);
    await writeTo(`${tree}/DEBIAN/prerm`, beforeRemoval(name), PROGRAM_MODE);
    await writeTo(`${tree}/DEBIAN/postrm`, AFTER_REMOVAL, PROGRAM_MODE);
  }

  // The same content gives the same package: everything belongs to root, and is as old as the revision.
  const args = ["--root-owner-group", "-Zxz", "--build", tree, `${folder}/${file}`];
  const made = await execute("dpkg-deb", args, { SOURCE_DATE_EPOCH: await revisionTime() })
    .catch(() => {
      throw new SvcError(
        "unavailable",
        `Cannot make ${file}: dpkg-deb is missing; install Debian's package dpkg`,
      );
    });
  if (made.code !== 0) throw new SvcError("internal", `Cannot make ${file}: ${made.errors.trim()}`);
  await Deno.remove(tree, { recursive: true });
  return file;
}

function control(name: string, version: string, processor: string): string {
  const fields = {
    Package: name,
    // A version before a release sorts before it: 0.2.0-rc.1 is 0.2.0~rc.1.
    Version: version.replace("-", "~"),
    Architecture: processor,
    Maintainer: "svc maintainers <maintainers@svc.invalid>",
    Section: "misc",
    Priority: "optional",
    Depends: DEPENDS,
    Recommends: "ca-certificates",
    Description: DESCRIPTIONS[name],
  };
  return Object.entries(fields).map(([field, value]) => `${field}: ${value}\n`).join("");
}

/**
 * A newer program takes over at once; one that does not run is left alone. A masked unit, or a configuration with which
 * it does not start, is the user's own: dpkg would call the package broken, and refuse its removal too.
 */
function afterInstallation(name: string): string {
  return `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  ${name in USERS ? `systemd-sysusers ${name}.conf\n  ` : ""}systemctl daemon-reload || true
  systemctl try-restart ${name}.service ||
    echo "${name} was not restarted; see: systemctl status ${name}" >&2
fi
`;
}

/** An update replaces the program while it runs; a removal stops it, also where its unit is masked. */
function beforeRemoval(name: string): string {
  return `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl stop ${name}.service || true
  systemctl disable ${name}.service || true
fi
`;
}

const AFTER_REMOVAL = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
`;

async function copyTo(from: string, to: string, mode = 0o644): Promise<void> {
  await Deno.mkdir(to.slice(0, to.lastIndexOf("/")), { recursive: true });
  await Deno.copyFile(from, to);
  await Deno.chmod(to, mode);
}

async function writeTo(path: string, text: string, mode = 0o644): Promise<void> {
  await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, mode);
}
