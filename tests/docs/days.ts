/** The days of five people who have README and docs alone, command by command. */

import { dirname } from "node:path";
import { blockWith, ROOT } from "./pages.ts";
import { runScript } from "./scripts.ts";
import { photograph } from "./sessions.ts";
import { linuxProgram } from "../support/linux_program.ts";
import type { Typings, Typist } from "./typist.ts";

const README = "README.md";
const CLOUD = "docs/cloud.md";
const OPERATING = "docs/operating.md";
const TOOLS = "docs/tools.md";
const TRAINING = "docs/training.md";
const MODULES = "docs/writing_modules.md";

/** The port of README's machines is taken on computers that develop them. */
const ANY_PORT = "localhost:0";

/** A hobbyist: the demo machine, a look at it, and the first machine of one's own. */
export async function hobbyistsDay(typist: Typist): Promise<void> {
  await demo(typist);
  await typist.types(TOOLS, "svc-server watch motor1", {
    "svc-server watch": { until: "position" },
    "svc-server logs": { as: "svc-server logs -f --level info", until: "machine is running" },
    "svc-server module": { skip: "the demo has no module" },
  });

  await typist.saves(README, '"max_rpm": 200', "machine.json");
  await typist.typesWithin(README, "svc-server check FILE", { as: "svc-server check machine.json" });
  await onAnyPort(typist, "machine.json");
  machine(typist, await typist.types(README, "svc-server -config machine.json", RUNS));
  await typist.types(TOOLS, "svc-server watch motor1", {
    "svc-server watch": { until: "position" },
    "svc-server logs": { skip: "typed above" },
    "svc-server module": { skip: "this machine has no module" },
  });
}

/** A Python developer: the demo from Python, then a module of one's own, up to the registry. */
export async function pythonDevelopersDay(typist: Typist, python: string): Promise<void> {
  const address = await demo(typist);
  const program = (text: string) => text.replace("localhost:8080", new URL(address).host);
  await typist.saves(README, "RobotClient.at_address", "demo.py", program);
  typist.export("PATH", `${dirname(python)}:${typist.variable("PATH")}`);
  await typist.runs("python3 demo.py");

  await typist.types(MODULES, "svc-server module new thermo", {
    "svc-server module new arm7": {
      as: "svc-server module new arm7 --language python --api arm --namespace acme",
    },
    "svc-server module new": { skip: "TypeScript is for others, and questions want a terminal" },
  });
  typist.enter("arm7");
  // The requirements, as setup.sh would install them.
  await Deno.symlink(dirname(dirname(python)), `${typist.place}/venv`);
  await onAnyPort(typist, "machine.json");
  const serving = await typist.typesWithin(MODULES, "svc-server -config machine.json -hot .", {
    stays: "machine is running",
  });
  machine(typist, serving);
  await typist.types(TOOLS, "svc-server watch motor1", {
    "svc-server status": {},
    "svc-server": { skip: "the demo's motor is not here" },
  });

  typist.enter("..");
  await controlPlane(typist);
  typist.enter("arm7");
  await typist.types(MODULES, "svc-cloud org namespace acme");
}

/** A web developer: the demo and the control plane from the published library. */
export async function webDevelopersDay(typist: Typist): Promise<void> {
  const address = await demo(typist);
  const drive = await blockWith(README, "MotorClient");
  typist.shows("node demo.mjs", await runScript(drive.text.replace("http://localhost:8080", address)));

  const { url, keyId, key } = await controlPlane(typist);
  const { text } = await blockWith(README, "createViamClient");
  const program = text.replace("http://localhost:8090", url).replace("<key id>", keyId).replace("<key>", key);
  typist.shows("node organizations.mjs", await runScript(program));
}

/** An ML engineer: from photographs to a model, and a training script. */
export async function mlEngineersDay(typist: Typist): Promise<void> {
  await controlPlane(typist);
  for (const [label, color] of [["apple", 0], ["lime", 1]] as const) {
    await Deno.mkdir(`${typist.folder}/photos/${label}`, { recursive: true });
    for (let index = 0; index < 10; index++) {
      await Deno.writeFile(`${typist.folder}/photos/${label}/${index}.png`, photograph(color, index));
    }
  }
  await typist.types(TRAINING, "svc-ml dataset create fruit", {
    "svc-ml logs": { quiet: "figures of the training" },
  });
  await typist.types(TRAINING, "svc-ml dataset create ripe", {
    "svc-ml script test-local": { quiet: "figures of the training" },
  });
}

/** An operator: organizations, machines, configurations, fragments, the fleet, and a backup. */
export async function operatorsDay(typist: Typist): Promise<void> {
  await controlPlane(typist);
  await compiledPrograms(typist);
  await typist.types(README, "svc-cloud release publish svc-agent", {
    "svc-cloud machine create": { as: "svc-cloud machine create first" },
  });
  await Deno.writeTextFile(`${typist.folder}/rover.json`, JSON.stringify({ components: [] }));
  await typist.types(CLOUD, "svc-cloud org create Orchard");
  await typist.types(CLOUD, "svc-cloud config history PART", {
    "svc-cloud config set": { as: "svc-cloud config set rover rover.json" },
    "svc-cloud config history": { as: "svc-cloud config history rover" },
    "svc-cloud config restore": { as: "svc-cloud config restore rover 1" },
    "svc-cloud config diff": { as: "svc-cloud config diff rover rover.json" },
    "svc-cloud config show": { as: "svc-cloud config show rover --resolved" },
  });
  await typist.types(CLOUD, "svc-cloud fragment apply base", {
    "svc-cloud fragment set": { as: "svc-cloud fragment set base rover.json --org Orchard" },
  });
  await typist.typesWithin(OPERATING, "svc-cloud machine tag ID night", {
    as: "svc-cloud machine tag rover night",
  });
  await typist.typesWithin(OPERATING, "svc-cloud fleet", { as: "svc-cloud fleet --org Orchard" });
  await typist.typesWithin(CLOUD, "svc-cloud audit");
  await typist.typesWithin("docs/data.md", "svc-cloud usage");
  await typist.types(CLOUD, "svc-cloud backup /mnt/backups --list", {
    "svc-cloud backup /mnt/backups --list": { as: "svc-cloud backup backups --list" },
    "svc-cloud backup": { as: "svc-cloud backup backups" },
    "svc-cloud restore": { as: "svc-cloud restore backups --data restored" },
  });
}

/** What `deno task compile` makes, as far as `release publish` looks. */
async function compiledPrograms({ folder }: Typist): Promise<void> {
  await Deno.mkdir(`${folder}/dist/linux-arm64`, { recursive: true });
  for (const name of ["svc-agent", "svc-server"]) {
    await Deno.writeFile(`${folder}/dist/linux-arm64/${name}`, linuxProgram(64, "arm64"));
  }
}

const RUNS: Typings = { "svc-server -config": { stays: "machine is running" } };

/** README's demo, as its task runs it, on another port. */
async function demo(typist: Typist): Promise<string> {
  await Deno.copyFile(`${ROOT}examples/demo.json`, `${typist.folder}/demo.json`);
  await onAnyPort(typist, "demo.json");
  const output = await typist.types(README, "task demo", {
    "npx --yes deno@2.9.6 task demo": {
      as: "svc-server -config demo.json",
      stays: "machine is running",
    },
    "npx --yes deno@2.9.6 task test": { skip: "these are the tests" },
  });
  machine(typist, output);
  return urlIn(output);
}

/** README's control plane, on another port; the key of its owner is that of the shell from then on. */
async function controlPlane(typist: Typist) {
  const output = await typist.types(README, "svc-cloud serve --demo", {
    "svc-cloud serve": { as: `svc-cloud serve --demo --listen ${ANY_PORT}`, stays: "\tserving\t" },
  });
  const [, url, keyId, key] = /SVC_BASE_URL=(\S+) SVC_API_KEY_ID=(\S+) SVC_API_KEY=(\S+)/.exec(output)!;
  typist.export("SVC_BASE_URL", url);
  typist.export("SVC_API_KEY_ID", keyId);
  typist.export("SVC_API_KEY", key);
  typist.export("SVC_CLOUD_DATA", `${typist.folder}/svc-cloud-data`);
  return { url, keyId, key };
}

async function onAnyPort(typist: Typist, file: string): Promise<void> {
  const path = `${typist.place}/${file}`;
  const config = JSON.parse(await Deno.readTextFile(path));
  await Deno.writeTextFile(path, JSON.stringify({ ...config, network: { bind_address: ANY_PORT } }));
}

/** The commands on a running machine mean the one that has printed this. */
function machine(typist: Typist, output: string): void {
  typist.export("SVC_MACHINE", urlIn(output));
}

function urlIn(output: string): string {
  const [, url] = /"url":"([^"]+)"/.exec(output) ?? [];
  if (url === undefined) throw new Error(`there is no address in\n${output}`);
  return url;
}
