/**
 * The published calls of a control plane's clients, their state here, and the page about them.
 *
 * A call works if there is a rule for it, and then a test or a tour of a published library makes it; every other call
 * has its reason in `lib/cloud/access/unserved.ts`.
 */

import { RULES } from "../../lib/cloud/access/rules.ts";
import { UNSERVED } from "../../lib/cloud/access/unserved.ts";

const CLOUD_TESTS = new URL("../cloud/", import.meta.url);
const CALLS = new URL("../golden/published_calls.json", import.meta.url);
/** What libraries call one call, beside its own name. */
const OTHER_NAMES: { readonly [name: string]: readonly string[] } = {
  DataCaptureUpload: ["binaryDataCaptureUpload", "tabularDataCaptureUpload"],
  ListDatasetsByIDs: ["listDatasetByIds"],
};
/** Test files that are named where no tour makes a call. */
const NAMED_MAX = 2;

/** A service's title on the page, and its remarks. */
const TITLES: { readonly [service: string]: readonly [title: string, about?: string] } = {
  AppService: ["App"],
  DataService: ["Data"],
  DatasetService: ["Dataset"],
  DataSyncService: ["DataSync"],
  MLTrainingService: ["MLTraining"],
  ProvisioningService: [
    "Provisioning",
    "It is a service of a device that waits to be set up. `svc-agent` does not serve it yet.",
  ],
  BillingService: ["Billing"],
};

const INTRODUCTION = `<!-- deno-fmt-ignore-file -->
<!-- Made by "deno task golden" of the rules of svc-cloud and of lib/cloud/access/unserved.ts; a change belongs there. -->

# Published calls

What \`svc-cloud\` makes of each call that the published client libraries know. A call that works names the tours of
those libraries that make it, or else tests of this project's own. Every other call is answered with
\`UNIMPLEMENTED\` and the words that stand here.
`;

export interface PublishedCall {
  readonly service: string;
  readonly name: string;
  /** `/viam.app.v1.AppService/GetRobot` */
  readonly path: string;
  readonly served: boolean;
  /** Why it is not served. */
  readonly reason?: string;
  /** The files with a call of it, tours first. */
  readonly madeIn: readonly string[];
}

/** Every published call, service by service. */
export async function publishedCalls(): Promise<PublishedCall[]> {
  const services: Record<string, string[]> = JSON.parse(await Deno.readTextFile(CALLS));
  const made = await callsOfTests();
  const rules = new Set(RULES.map(({ path }) => path));
  return Object.entries(services).flatMap(([service, names]) =>
    names.map((name) => {
      const path = `/${service}/${name}`;
      const spellings = [name, ...OTHER_NAMES[name] ?? []].map((one) => one.toLowerCase());
      const files = made.filter(({ calls }) => spellings.some((one) => calls.has(one))).map(({ file }) =>
        file
      );
      return { service, name, path, served: rules.has(path), reason: UNSERVED.get(path), madeIn: files };
    })
  );
}

/** Calls by their name in small letters and without `_`, as libraries of any language spell it. */
async function callsOfTests(): Promise<{ file: string; calls: ReadonlySet<string> }[]> {
  const names = [...Deno.readDirSync(CLOUD_TESTS)].map(({ name }) => name);
  const tours = names.filter((name) => /_tour\.(py|mjs)$/.test(name)).sort();
  const tests = names.filter((name) => name.endsWith("_test.ts")).sort();
  return await Promise.all([...tours, ...tests].map(async (name) => {
    const source = await Deno.readTextFile(new URL(name, CLOUD_TESTS));
    const calls = [...source.matchAll(/(?:\.|await )(\w+)\(/g)].map(([, call]) =>
      call.replaceAll("_", "").toLowerCase()
    );
    return { file: `tests/cloud/${name}`, calls: new Set(calls) };
  }));
}

export function pageOf(calls: readonly PublishedCall[]): string {
  const services = Map.groupBy(calls, ({ service }) => service);
  return [INTRODUCTION, ...[...services].map(([service, own]) => sectionOf(service, own))].join("\n");
}

function sectionOf(service: string, calls: readonly PublishedCall[]): string {
  const short = service.split(".").at(-1)!;
  const [title, about] = TITLES[short] ?? [short.replace("Service", "")];
  const works = calls.filter(({ served }) => served).length;
  const count = `\`${service}\`: ${works} of ${calls.length} calls work.${about ? ` ${about}` : ""}`;
  const rows = calls.map(({ name, served, reason = "", madeIn }) => {
    const tours = madeIn.filter((file) => file.includes("_tour."));
    const shown = tours.length > 0 ? tours : madeIn.slice(0, NAMED_MAX);
    return `| \`${name}\` | ${served ? shown.map((file) => `\`${file}\``).join(", ") : `no: ${reason}`} |\n`;
  });
  return `## ${title}\n\n${count}\n\n| Call | Works, as made in |\n| --- | --- |\n${rows.join("")}`;
}
