/**
 * `deno task vm:containers`: the container of docs/operating.md, and the control planes, the database, the object store
 * and the balancer of examples/control_planes, in containers of Podman's.
 *
 * No image is downloaded. Debian's packages make the base and stand-ins of the images that the compose file names; in
 * place of the executable, svc-cloud runs from source. Needs root, Go, and the packages podman, podman-compose, runc,
 * netavark, aardvark-dns, iptables, conmon and debootstrap; it takes port 443.
 *
 * Promises: one line a scenario, `ok …` or `FAILED …`, and their count at the end; exit code 0 only if none failed.
 */

import { ROOT } from "../../cli/build/compiler.ts";
import { Report } from "../../cli/build/report.ts";
import { begin } from "../../cli/program.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { until } from "../support/until.ts";

const PROGRAM = {
  name: "deno task vm:containers",
  summary: "Starts the compose file of examples/control_planes with images made here.",
  style: "gnu",
  usage: "",
  flags: [],
} as const;

const FOLDER = `${ROOT}dist/vm/containers`;
const GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const BUILD = ["--network", "host", "--isolation", "chroot"];
const SERVES_MS = 180_000;
/** The balancer gives up a server whose name it cannot look up after 30 s. */
const LOOKED_UP_MS = 45_000;

const CONTAINERS_CONF = `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
`;

const STORAGE_CONF = `[storage]
driver = "overlay"
graphroot = "${FOLDER}/storage"
runroot = "${FOLDER}/run"
`;

/** In place of the executable. */
const SVC_CLOUD = `#!/bin/sh
exec /opt/deno run -A --no-check /opt/svc/cli/cloud/main.ts "$@"
`;

const GATEWAY_FILE = `FROM debian:bookworm-slim
COPY versitygw /usr/local/bin/versitygw
ENTRYPOINT ["versitygw"]
`;

const HAPROXY_FILE = `FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends haproxy
ENTRYPOINT ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
`;

const POSTGRES_FILE = `FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql
COPY start.sh /start.sh
ENTRYPOINT ["/bin/sh", "/start.sh"]
`;

/** What the published image does at its first start. */
const POSTGRES_START = `set -e
bin=$(ls -d /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
as="setpriv --reuid postgres --regid postgres --clear-groups"
chown postgres "$data"
if [ ! -e "$data/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" > /tmp/password
  chown postgres /tmp/password
  $as "$bin/initdb" -D "$data" -U postgres --pwfile=/tmp/password -A scram-sha-256
  echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
  $as "$bin/pg_ctl" -D "$data" -w -o "-c listen_addresses=" start
  for one in /docker-entrypoint-initdb.d/*.sql; do
    PGPASSWORD="$POSTGRES_PASSWORD" psql -h /var/run/postgresql -U postgres -v ON_ERROR_STOP=1 -f "$one"
  done
  $as "$bin/pg_ctl" -D "$data" -w stop
fi
exec $as "$bin/postgres" -D "$data" -c "listen_addresses=*"
`;

const ENVIRONMENT = `POSTGRES_PASSWORD=p/w@x
STORE_KEY=storekey
STORE_SECRET=storesecret
PUBLIC_URL=https://127.0.0.1
`;

const env = {
  CONTAINERS_CONF: `${FOLDER}/containers.conf`,
  CONTAINERS_STORAGE_CONF: `${FOLDER}/storage.conf`,
};

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const report = new Report(host);
  await writeFolder();
  await makeImages();
  try {
    const isBuilt = await report.check(
      "the recipe of docs/operating.md makes a container that runs",
      async () => {
        await run("podman", "build", ...BUILD, "-t", "svc-cloud", FOLDER);
        const source = (await sourceVolumes()).flatMap((one) => ["-v", one]);
        const settings = ["--network", "host", "-e", "DENO_DIR=/opt/deno-dir"];
        return (await run("podman", "run", "--rm", ...settings, ...source, "svc-cloud", "--version")).trim();
      },
    );
    if (isBuilt) await checkPlanes(report);
    return report.finish();
  } finally {
    await compose("down", "--volumes").catch(() => {});
  }
}

async function checkPlanes(report: Report): Promise<void> {
  await report.check("three control planes, database, store and balancer start and answer", async () => {
    await compose("up", "-d");
    await answers();
  });
  await report.check("what one control plane has made, another one has", async () => {
    await run("podman", "exec", "planes_cloud-1_1", "svc-cloud", "org", "create", "Orchard");
    const listed = await run("podman", "exec", "planes_cloud-3_1", "svc-cloud", "org", "list");
    if (!listed.includes("Orchard")) throw new Error(listed);
  });
  await report.check("the balancer keeps finding them by name", async () => {
    await new SystemClock().sleep(LOOKED_UP_MS);
    await answers(0);
  });
  await report.check("a control plane is killed, and the others answer", async () => {
    await run("podman", "kill", "planes_cloud-2_1");
    await answers();
  });
  await report.check("a control plane that is made anew finds everything in the database", async () => {
    await run("podman", "rm", "-f", "planes_cloud-2_1");
    await compose("up", "-d");
    await answers();
    await until(async () => {
      const list = ["exec", "planes_cloud-2_1", "svc-cloud", "org", "list"];
      return (await run("podman", ...list).catch(() => "")).includes("Orchard");
    }, { withinMs: SERVES_MS });
  });
}

/** Through the balancer. */
async function answers(withinMs = SERVES_MS): Promise<void> {
  const ready = ["-sk", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", "https://127.0.0.1/readyz"];
  await until(async () => (await run("curl", ...ready).catch(() => "")) === "200", { withinMs });
}

async function writeFolder(): Promise<void> {
  for (const name of ["gateway", "haproxy", "postgres"]) {
    await Deno.mkdir(`${FOLDER}/${name}`, { recursive: true });
  }
  for (const { name } of Deno.readDirSync(`${ROOT}examples/control_planes`)) {
    await Deno.copyFile(`${ROOT}examples/control_planes/${name}`, `${FOLDER}/${name}`);
  }
  const operating = await Deno.readTextFile(`${ROOT}docs/operating.md`);
  const [, recipe = ""] = /```dockerfile\n([\s\S]*?)```/.exec(operating) ?? [];
  const volumes = await sourceVolumes();
  const source = { volumes, environment: { DENO_DIR: "/opt/deno-dir" } };
  const services = { "cloud-1": source, "cloud-2": source, "cloud-3": source };
  const files: { readonly [name: string]: string } = {
    ...{ Containerfile: recipe, ".env": ENVIRONMENT, "source.yaml": JSON.stringify({ services }) },
    ...{ "containers.conf": CONTAINERS_CONF, "storage.conf": STORAGE_CONF, "svc-cloud": SVC_CLOUD },
    ...{ "gateway/Containerfile": GATEWAY_FILE, "haproxy/Containerfile": HAPROXY_FILE },
    ...{ "postgres/Containerfile": POSTGRES_FILE, "postgres/start.sh": POSTGRES_START },
  };
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${FOLDER}/${name}`, text);
  await Deno.chmod(`${FOLDER}/svc-cloud`, 0o755);

  const key = ["-keyout", `${FOLDER}/key.pem`, "-out", `${FOLDER}/certificate.pem`, "-subj", "/CN=localhost"];
  await run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...key);
  const pair = ["certificate.pem", "key.pem"].map((name) => Deno.readTextFileSync(`${FOLDER}/${name}`));
  await Deno.writeTextFile(`${FOLDER}/cloud.pem`, pair.join(""), { mode: 0o644 });
}

/** The runtime, the source and the packages, for svc-cloud in the containers. */
async function sourceVolumes(): Promise<string[]> {
  const info = JSON.parse(await run(Deno.execPath(), "info", "--json"));
  return [
    `${Deno.execPath()}:/opt/deno:ro`,
    `${ROOT.replace(/\/$/, "")}:/opt/svc:ro`,
    `${info.denoDir}:/opt/deno-dir:ro`,
  ];
}

async function makeImages(): Promise<void> {
  const base = `${FOLDER}/base`;
  const debian = "docker.io/library/debian:bookworm-slim";
  if (!await has(debian)) {
    await Deno.remove(base, { recursive: true }).catch(() => {});
    await run("debootstrap", "--variant=minbase", "bookworm", base);
    await run("tar", "-C", base, "-cf", `${FOLDER}/base.tar`, ".");
    await run("podman", "import", `${FOLDER}/base.tar`, debian);
    for (const path of [base, `${FOLDER}/base.tar`]) await Deno.remove(path, { recursive: true });
  }

  await run("env", `GOBIN=${FOLDER}/gateway`, "go", "install", GATEWAY);
  const images = {
    gateway: "docker.io/versity/versitygw:latest",
    haproxy: "docker.io/library/haproxy:lts",
    postgres: "docker.io/library/postgres:17",
  };
  for (const [name, image] of Object.entries(images)) {
    await run("podman", "build", ...BUILD, "-t", image, `${FOLDER}/${name}`);
  }
}

async function has(image: string): Promise<boolean> {
  return await run("podman", "image", "exists", image).then(() => true, () => false);
}

async function compose(...words: readonly string[]): Promise<void> {
  const files = ["-f", `${FOLDER}/compose.yaml`, "-f", `${FOLDER}/source.yaml`];
  await run("podman-compose", "--podman-build-args", BUILD.join(" "), "-p", "planes", ...files, ...words);
}

/** Runs a program in the folder; returns its output. */
async function run(program: string, ...args: readonly string[]): Promise<string> {
  const command = new Deno.Command(program, { args: [...args], cwd: FOLDER, env, stdin: "null" });
  const { code, stdout, stderr } = await command.output();
  const [output, complaints] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  if (code === 0) return output;
  throw new Error(`${program} ${args.join(" ")} ended with ${code}:\n${(output + complaints).slice(-2_000)}`);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
