/**
 * `init`: writes a first configuration by questions. It looks for the devices of this computer and proposes their
 * entries; every answer is checked when it is given, and the file is checked as a whole before it is written.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { SvcError } from "../../../lib/base/error.ts";
import { DecodeContext, type Json, type JsonObject } from "../../../lib/base/schema/schema.ts";
import { checkConfig, problemLine } from "../../../lib/machine/config/check.ts";
import type { AnyModel } from "../../../lib/resource/registry.ts";
import type { Command } from "../../command.ts";
import type { Flag, Values } from "../../flags.ts";
import { printResult } from "../../table.ts";
import { findDevices, type FoundDevice } from "./devices.ts";
import { Interview } from "./interview.ts";
import type { FirstContext } from "./first_context.ts";
import { withoutEnd } from "../../../lib/base/escape.ts";

const USUAL_FILE = "machine.json";
const USUAL_PORT = "8080";
const NAME = /^[a-zA-Z0-9][\w-]{0,59}$/;
/** A script that answers with nonsense ends. */
const TRIES_MAX = 20;
const KEY_BYTES = 24;
const SECRET_MODE = 0o600;

const FLAGS = [
  { name: "yes", type: "bool", default: false, help: "Take every proposal without asking." },
  {
    name: "discover",
    type: "bool",
    default: true,
    help: "Look for the pins and cameras of this computer.",
  },
] as const satisfies readonly Flag[];

export const WRITE_FIRST: Command<FirstContext> = {
  words: "init",
  takes: ["[FILE]"],
  summary: `Writes a first configuration by questions, by default to ${USUAL_FILE}; proposes the pins and ` +
    "cameras that it finds.",
  flags: FLAGS,
  run: init,
};

async function init(
  { host, registry, ask }: FirstContext,
  [file = USUAL_FILE]: readonly string[],
  { yes, discover, json }: Values<typeof FLAGS> & { readonly json: boolean },
): Promise<void> {
  const path = resolve(host.cwd(), file);
  if (await host.stat(path)) {
    throw new SvcError("already_exists", `${path} exists; name another file, or move this one away`);
  }
  const interview = new Interview({ ask, agrees: yes, tell: (text) => host.writeError(`${text}\n`) });
  const devices = discover ? await findDevices(host, registry, (text) => interview.tell(text)) : [];
  const config = configOf(interview, await registry.all(), devices);
  const text = `${JSON.stringify(config, null, 2)}\n`;
  const bytes = new TextEncoder().encode(text);
  const { problems } = await checkConfig(bytes, file, registry, (name) => host.env(name));
  for (const problem of problems) interview.tell(problemLine(problem, file));
  // The file may have been made during the questions.
  await host.createFile(path, bytes, { mode: SECRET_MODE });
  const secret = "cloud" in config ? "" : "\nThe file has a key: only you can read it.";
  printResult(host, json, { file: path, config }, [
    `wrote ${path}${config.auth ? secret : ""}`,
    "",
    `Check it after a change:  svc-server check ${file}`,
    `Look at this device:      svc-server doctor --config ${file}`,
    `Run the machine:          svc-server -config ${file}${insecureFlag(config)}`,
  ]);
}

/** A control plane without TLS needs the person's consent. */
function insecureFlag({ cloud }: JsonObject): string {
  const address = (cloud as JsonObject | undefined)?.app_address;
  return typeof address === "string" && address.startsWith("http:") ? " -allow-insecure-creds" : "";
}

function configOf(
  interview: Interview,
  models: readonly AnyModel[],
  devices: readonly FoundDevice[],
): JsonObject {
  if (interview.yes("Does a control plane (svc-cloud) keep this machine's configuration?", false)) {
    return { cloud: cloudOf(interview) };
  }
  const components = componentsOf(interview, models, devices);
  return { components, ...networkOf(interview) };
}

function cloudOf(interview: Interview): JsonObject {
  const needed = (what: string) => (answer: string) => answer === "" ? `wanted ${what}` : undefined;
  interview.tell("svc-cloud machine create NAME prints these values.");
  const address = interview.text("Address of the control plane", "", (answer) => {
    if (/^https?:\/\/[^\s/]+\/?$/.test(answer)) return undefined;
    return `found "${answer}", wanted an address such as https://cloud.example.com or http://192.168.1.5:8090`;
  });
  return {
    app_address: address,
    id: interview.text("ID of the part", "", needed("the part's ID")),
    api_key: {
      id: interview.text("ID of the machine's key", "", needed("the key's ID")),
      key: interview.text("The key itself", "", needed("the key")),
    },
  };
}

function networkOf(interview: Interview): JsonObject {
  const port = interview.text("Port of the machine and its page", USUAL_PORT, (answer) => {
    const isPort = /^\d+$/.test(answer) && Number(answer) >= 1 && Number(answer) <= 65535;
    return isPort ? undefined : `found "${answer}", wanted a number from 1 to 65535`;
  });
  if (!interview.yes("May other computers of the network reach the machine, with a key?", false)) {
    return { network: { bind_address: `localhost:${port}` } };
  }
  const id = randomUUID();
  const key = randomBytes(KEY_BYTES).toString("base64url");
  return {
    network: { bind_address: `0.0.0.0:${port}` },
    auth: { handlers: [{ type: "api-key", config: { [id]: key, keys: [id] } }] },
  };
}

function componentsOf(
  interview: Interview,
  models: readonly AnyModel[],
  devices: readonly FoundDevice[],
): JsonObject[] {
  const components: JsonObject[] = [];
  const add = (proposed: string, entry: JsonObject) => {
    const taken = new Set(components.map(({ name }) => name));
    const name = interview.text("  Its name", unusedOf(proposed, taken), (answer) => {
      if (!NAME.test(answer)) return `found "${answer}", wanted up to 60 letters, digits, "-" and "_"`;
      return taken.has(answer) ? `"${answer}" is taken` : undefined;
    });
    components.push({ name, ...entry });
  };
  for (const { name, api, model, attributes } of devices) {
    const kind = api.slice(api.lastIndexOf(":") + 1);
    if (!interview.yes(`Found ${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind} (${name}). Add it?`, true)) {
      continue;
    }
    add(name, { api, model: model.replace("rdk:builtin:", ""), attributes });
  }
  if (components.length === 0 && interview.yes("Add a simulated board and motor to try things with?", true)) {
    components.push(...SIMULATED);
  }
  const kinds = kindsOf(models);
  for (;;) {
    const kind = interview.choice(
      "Add another component (board, camera, motor, …; empty for no more)",
      "",
      kinds,
    );
    if (kind === "") return components;
    const api = `rdk:component:${kind}`;
    const ofKind = new Map(
      models.filter((model) => model.api.name === api)
        .map((model) => [model.name.replace("rdk:builtin:", ""), model]),
    );
    for (const [name, { doc }] of ofKind) interview.tell(`  ${name}: ${doc}`);

    const names = [...ofKind.keys()];
    const proposed = names.find((one) => one !== "fake") ?? names.join("");
    const model = interview.choice("  Its model", proposed, names);
    const attributes = attributesFor(interview, ofKind.get(model)!, components);
    add(`${kind.replaceAll("_", "-")}1`, { api, model, ...(attributes ? { attributes } : {}) });
  }
}

/** A motor on a board without hardware: it turns, and the machine's page shows it. */
const SIMULATED: readonly JsonObject[] = [
  { name: "board1", api: "rdk:component:board", model: "fake" },
  {
    name: "motor1",
    api: "rdk:component:motor",
    model: "gpio",
    attributes: { board: "board1", pins: { dir: "11", pwm: "13" }, max_rpm: 200 },
  },
];

function kindsOf(models: readonly AnyModel[]): string[] {
  const apis = models.map((model) => model.api.name);
  const prefix = "rdk:component:";
  const kinds = apis.filter((api) => api.startsWith(prefix)).map((api) => api.slice(prefix.length));
  return [...new Set(kinds)].sort();
}

/** The settings without which the model cannot be built, asked again until the model takes them. */
function attributesFor(
  interview: Interview,
  { attributes: field }: AnyModel,
  components: readonly JsonObject[],
): JsonObject | undefined {
  const shape = field.jsonSchema() as Shape;
  if (!shape.required?.length) return undefined;
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const attributes = answersFor(interview, shape, components);
    const place = new DecodeContext("attributes");
    field.decode(attributes, place);
    const names = components.map(({ name }) => name);
    const missing = place.named.filter(({ name, optional }) => !optional && !names.includes(name));
    if (!place.failed && missing.length === 0) return attributes;
    for (const { path, message } of place.problems) interview.tell(`${path}: ${message}`);
    for (const { path, name } of missing) {
      interview.tell(
        `${path}: there is no "${name}" yet; the components so far: ${names.join(", ") || "none"}`,
      );
    }
  }
  throw new SvcError("aborted", "the model takes none of these settings; nothing was written");
}

function answersFor(
  interview: Interview,
  { required = [], properties = {} }: Shape,
  components: readonly JsonObject[],
): JsonObject {
  const attributes: JsonObject = {};
  for (const key of required) {
    const { type, description = "" } = properties[key] ?? {};
    const proposal = components.some(({ name }) => name === `${key}1`) ? `${key}1` : "";
    const question = `  ${key}${description === "" ? "" : ` (${description})`}`;
    interview.text(question, proposal, (answer) => {
      const value = valueOf(answer, type);
      if (value === undefined) return `found "${answer}", wanted ${wantedOf(type)}`;
      attributes[key] = value;
      return undefined;
    });
  }
  return attributes;
}

interface Shape {
  readonly required?: readonly string[];
  readonly properties?: {
    readonly [key: string]: { readonly type?: string; readonly description?: string } | undefined;
  };
}

/** Text is taken as it is, everything else as JSON. */
function valueOf(answer: string, type: string | undefined): Json | undefined {
  if (type === "string") return answer === "" ? undefined : answer;
  try {
    const value: Json = JSON.parse(answer);
    return fits(value, type) ? value : undefined;
  } catch {
    return type === undefined && answer !== "" ? answer : undefined;
  }
}

function fits(value: Json, type: string | undefined): boolean {
  switch (type) {
    case "number":
      return typeof value === "number";
    case "integer":
      return Number.isInteger(value);
    case "boolean":
      return typeof value === "boolean";
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    default:
      return true;
  }
}

function wantedOf(type: string | undefined): string {
  const examples: { readonly [type: string]: string | undefined } = {
    string: "text",
    object: 'JSON such as {"dir": "11", "pwm": "13"}',
    array: 'JSON such as ["a", "b"]',
    boolean: "true or false",
    integer: "a whole number",
  };
  return examples[type ?? ""] ?? `a value of type ${type ?? "text"}`;
}

function unusedOf(proposed: string, taken: ReadonlySet<unknown>): string {
  const stem = withoutEnd(proposed, "0123456789");
  let name = proposed;
  for (let number = 2; taken.has(name); number++) name = `${stem}${number}`;
  return name;
}
