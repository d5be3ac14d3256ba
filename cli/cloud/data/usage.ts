/** Commands on how much captured data there is, and how long it is kept. */

import { Organizations } from "../../../lib/cloud/tenants/organizations.ts";
import { storedBy } from "../../../lib/cloud/access/usage_report.ts";
import {
  collectorWords,
  type DataRetention,
  GB_BYTES,
  type OwnRetention,
  retentionSettings,
  selectCollectors,
  setRetention,
} from "../../../lib/cloud/capture/retention_policies.ts";
import { clockProblem, noteRightTime } from "../../../lib/cloud/store/clock_check.ts";
import { UsageError } from "../../flags.ts";
import { chosenOrganization, type CloudCommand, cloudCommand, ORG } from "../command_context.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { sizeText } from "../../table.ts";

const KEEP = "Removes what is";

export const USAGE_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "usage",
    [],
    "Lists what organizations have stored, by kind: rows and size.",
    [{ ...ORG, help: "Only this organization." }],
    async ({ store, list, host, clock }, _, { org }) => {
      const chosen = org === ""
        ? await new Organizations(store).all()
        : [await chosenOrganization(store, org)];
      const amounts = [];
      for (const { id, name } of chosen) {
        for (const one of await storedBy(store, id)) amounts.push({ organizationName: name, ...one });
      }
      list("usage", amounts, {
        columns: [{ heading: "ORGANIZATION", cutTo: 16 }, { heading: "KIND" }, { heading: "ROWS" }, {
          heading: "SIZE",
        }],
        rows: amounts.map(({ organizationName, kind, rows, bytes }) => {
          return [organizationName, kind, String(rows), sizeText(bytes)];
        }),
        empty: "there is no organization yet: svc-cloud org create NAME makes one",
      });
      const problem = await clockProblem(store, clock.nowMs());
      if (problem) host.writeError(`${problem}\n`);
    },
  ),
  cloudCommand(
    "retention",
    [],
    "Prints or sets how long captured data of an organization is kept at most; its owners choose less on the page.",
    [
      ORG,
      {
        name: "days",
        type: "int",
        default: 0,
        help: `${KEEP} older than this many days, by the time of capture.`,
      },
      {
        name: "files-gb",
        type: "int",
        default: 0,
        help: `${KEEP} beyond this size of images and files, the oldest first; those in datasets stay.`,
      },
      {
        name: "readings-gb",
        type: "int",
        default: 0,
        help: `${KEEP} beyond this size of readings, the oldest first.`,
      },
      { name: "off", type: "bool", default: false, help: "Removes nothing by itself any more." },
      {
        name: "trust-clock",
        type: "bool",
        default: false,
        help:
          "This computer's clock is right: removes what is too old although no machine has sent anything of this time.",
      },
    ],
    async (context, _, { org, days, filesGb, readingsGb, off, trustClock }) => {
      const { id, name } = await chosenOrganization(context.store, org);
      const given: DataRetention = {
        days: amountIn("--days", days),
        binaryBytes: bytesIn("--files-gb", filesGb),
        tabularBytes: bytesIn("--readings-gb", readingsGb),
      };
      const isChange = Object.values(given).some((one) => one !== undefined);
      if (off && isChange) throw new UsageError("--off: wanted alone, without limits");
      const on = { kind: "organization", id } as const;
      if (off || isChange) {
        await context.change("retention", on, (sql) => setRetention(sql, id, off ? {} : given));
      }
      if (trustClock) await context.change("trust the clock", on, noteRightTime);
      const { bound, own, inEffect } = await retentionSettings(context.store, id);
      const whole = { organizationId: id, organizationName: name, ...inEffect, bound, own };
      const collectors = await selectCollectors(context.store, id);
      context.print({ ...whole, collectors }, [
        `organization ${name}: ${described(whole)}`,
        ...isSet(own)
          ? [
            `of these the limits that were set here: ${described(bound)}`,
            `and its owners' choice: ${described(own)}${logsText(own)}`,
          ]
          : [],
        ...collectors.map((one) => `${collectorWords(one)} of part ${one.partName}: ${described(one)}`),
      ]);
    },
  ),
];

function described({ days, binaryBytes, tabularBytes }: DataRetention): string {
  const limits = [
    days === undefined ? [] : [`${counted(days, "day")}`],
    binaryBytes === undefined ? [] : [`${binaryBytes / GB_BYTES} GB of images and files`],
    tabularBytes === undefined ? [] : [`${tabularBytes / GB_BYTES} GB of readings`],
  ].flat();
  return limits.join(", ") || "until somebody removes it";
}

function isSet(own: OwnRetention): boolean {
  return Object.values(own).some((one) => one !== undefined);
}

function logsText({ logDays }: OwnRetention): string {
  return logDays === undefined ? "" : `; logs ${counted(logDays, "day")}`;
}

function amountIn(flag: string, value: number): number | undefined {
  if (value < 0) throw new UsageError(`${flag}: found ${value}, wanted a whole number above 0`);
  return value === 0 ? undefined : value;
}

function bytesIn(flag: string, gigabytes: number): number | undefined {
  const amount = amountIn(flag, gigabytes);
  return amount === undefined ? undefined : amount * GB_BYTES;
}
