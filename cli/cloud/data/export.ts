/** `svc-cloud data export`: readings as a file for other programs. */

import { SvcError } from "../../../lib/base/error.ts";
import { Conditions } from "../../../lib/cloud/capture/filter.ts";
import { EXPORT_FORMATS, type ExportFormat, readingsAs } from "../../../lib/cloud/exports/readings.ts";
import { sinceMs } from "../../flags.ts";
import { withBar } from "../../progress/progress_bar.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  machineNamed,
  ORG,
  unknown,
} from "../command_context.ts";
import { counted } from "../../../lib/base/log/counted.ts";

const TIMES = "a length of time ago such as 24h, or a time such as 2024-01-02T03:04:05Z";

export const EXPORT_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "data export",
    ["FILE"],
    "Writes the readings of an organization, or of some of its components, into a file; by source, the oldest first.",
    [
      ORG,
      {
        name: "format",
        type: "string",
        default: "",
        value: "FORMAT",
        help: "csv, jsonl or parquet; by default as FILE ends.",
      },
      { name: "machine", type: "string", default: "", value: "NAME|ID", help: "Only of this machine." },
      {
        name: "component",
        type: "string",
        default: "",
        value: "NAME",
        help: "Only of components of this name.",
      },
      {
        name: "method",
        type: "string",
        default: "",
        value: "METHOD",
        help: "Only of this method, such as Readings.",
      },
      {
        name: "since",
        type: "string",
        default: "",
        value: "TIME",
        help: `Only captured since then: ${TIMES}.`,
      },
      {
        name: "until",
        type: "string",
        default: "",
        value: "TIME",
        help: `Only captured until then: ${TIMES}.`,
      },
    ],
    async (
      { store, files, clock, host, print },
      [file],
      { org, format, machine, component, method, since, until },
    ) => {
      const { id } = await chosenOrganization(store, org);
      const sources = new Conditions().only("o.organization_id = ?", id).is("o.component_name", component)
        .is("o.method_name", method);
      if (machine !== "") sources.is("o.machine_id", (await machineNamed(store, machine, org)).id);
      const at = (flag: string, text: string) =>
        text === "" ? undefined : Math.floor(sinceMs(flag, text, clock.nowMs()) * 1000);
      const captured = { fromUs: at("since", since), untilUs: at("until", until) };
      const chosen = formatOf(format, file);
      const contents = await files();
      let count = 0;
      await withBar({ host, clock }, { what: "readings written" }, async (bar) => {
        bar.phase("counting the readings");
        const pieces = readingsAs(chosen, store, { files: contents, sources, captured }, (now) => {
          const { written, total, lookedThrough } = now;
          count = written;
          if (lookedThrough === undefined) bar.show(written, total);
          else {bar.phase(
              `looking for columns in ${counted(total, "reading")}: ${percent(lookedThrough / total)}`,
            );}
        });
        await host.writePieces(file, pieces, { mode: 0o600 });
      });
      if (count === 0) throw new SvcError("not_found", `there are no such readings; ${file} is empty`);
      print({ file, readings: count }, [`${counted(count, "reading")} in ${file}`]);
    },
  ),
];

function percent(share: number): string {
  return `${Math.floor(100 * share)} %`;
}

function formatOf(given: string, file: string): ExportFormat {
  const name = given || file.slice(file.lastIndexOf(".") + 1);
  const format = EXPORT_FORMATS.find((one) => one === name.toLowerCase());
  if (format) return format;
  throw unknown("--format", name, EXPORT_FORMATS);
}
