/**
 * `svc-cloud init`: creates the first organization, location, machine and keys, and prints them.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { checkedAddress, noteAddress, notedAddress } from "../../lib/cloud/addresses/addresses.ts";
import { EXAMPLE_DATASET, EXAMPLE_IMAGES, type ExampleIds, makeExample } from "../../lib/cloud/example.ts";
import { EXAMPLE_LABELS } from "../../lib/learn/example_scene.ts";
import type { Flag, Values } from "../flags.ts";
import { withBar } from "../progress/progress_bar.ts";
import { openContents } from "./contents/address.ts";
import {
  type CloudCommand,
  type CloudProgramContext,
  JSON_FLAG,
  located,
  ownConfigs,
  withStore,
} from "./command_context.ts";
import type { StoreFlags } from "./cloud_flags.ts";

export const LISTEN = {
  name: "listen",
  type: "string",
  default: "localhost:8090",
  value: "HOST:PORT",
  help: "The address to serve on; port 0 takes a free port.",
} as const;

const PUBLIC_URL = {
  name: "public-url",
  type: "string",
  default: "",
  value: "URL",
  env: "SVC_CLOUD_PUBLIC_URL",
  help: "The address that people and machines use; by default the address in --listen.",
} as const;

const FLAGS = [
  LISTEN,
  PUBLIC_URL,
  {
    name: "example",
    type: "bool",
    default: false,
    help: "Also create a dataset to train from, and a machine that uses the model.",
  },
  JSON_FLAG,
] as const satisfies readonly Flag[];

export const INIT: CloudCommand = {
  words: "init",
  takes: [],
  summary: "Creates a first organization, location and machine, with keys for a person and for the " +
    "machine.",
  flags: FLAGS,
  run: init,
};

async function init(
  { host }: CloudProgramContext,
  _: readonly string[],
  given: Values<typeof FLAGS> & StoreFlags,
): Promise<void> {
  const values = located(given, host);
  await withStore(values, host, async (store) => {
    const clock = new SystemClock();
    const { data, publicUrl, listen } = values;
    // A control plane that serves has noted its address.
    const noted = listen === LISTEN.default ? await notedAddress(store) : undefined;
    const url = publicUrl === "" ? noted ?? `http://${listen}` : checkedAddress(publicUrl);
    const parts = {
      store,
      host,
      files: await openContents({ data, files: given.files }, host, clock),
      configs: ownConfigs(clock),
      data,
      clock,
    };
    const example = await withBar({ host, clock }, { what: "training pictures made" }, (bar) => {
      const heard = (made: number, total: number) => bar.show(made, total);
      return makeExample(parts, url, { withData: values.example, heard });
    });
    if (!example) {
      throw new SvcError("failed_precondition", "there is an organization already: init needs a new folder");
    }
    if (publicUrl !== "") await noteAddress(store, url);
    host.write(values.json ? `${JSON.stringify(example)}\n` : describeExample(example));
  });
}

export function describeExample({ url, ...example }: ExampleIds): string {
  const { organizationId, locationId, machineId, partId, datasetId, ownerKey, config } = example;
  const insecure = url.startsWith("http:") ? " -allow-insecure-creds" : "";
  return [
    "An example has been made. Its keys are shown this once.",
    "",
    `control plane  ${url} (in a browser: the fleet's page)`,
    `organization   ${organizationId}`,
    `location       ${locationId}`,
    `machine        ${machineId}`,
    `part           ${partId}`,
    ...(datasetId
      ? [`dataset        ${datasetId} (${EXAMPLE_IMAGES} pictures of ${EXAMPLE_LABELS.join(", ")})`]
      : []),
    `owner's key    id ${ownerKey.id}`,
    `               key ${ownerKey.key}`,
    "",
    ...(datasetId ? trainingHint(url, ownerKey) : []),
    `For the file of the machine (svc-server -config FILE${insecure}):`,
    "",
    JSON.stringify(config, null, 2),
    "",
    "",
  ].join("\n");
}

function trainingHint(url: string, { id, key }: ExampleIds["ownerKey"]): string[] {
  return [
    "To train a model that the machine then uses in its vision service:",
    "",
    `  export SVC_BASE_URL=${url} SVC_API_KEY_ID=${id} SVC_API_KEY=${key}`,
    `  svc-ml submit --model-type object-detection --dataset ${EXAMPLE_DATASET} --follow`,
    "",
  ];
}
