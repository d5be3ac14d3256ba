/** `svc-cloud files move`: copies all contents to another place while the control plane serves. */

import { withBar } from "../../progress/progress_bar.ts";
import { each } from "../backup/backup.ts";
import { copyContent } from "../backup/target.ts";
import { type CloudCommand, cloudCommand } from "../command_context.ts";
import { openContents } from "./address.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { sizeText } from "../../table.ts";

export const CONTENT_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "files move",
    ["PLACE"],
    "Copies all contents to a folder or to s3://BUCKET/PREFIX?endpoint=URL. Contents that are there already stay; " +
      "run it again after a break, and once more after serve has been restarted with --files PLACE --files-before OLD.",
    [],
    async (context, [place]) => {
      const from = await context.files();
      const to = await openContents({ data: context.folder, files: place }, context.host, context.clock);
      const moved = { copied: 0, bytes: 0, present: 0 };
      await withBar(context, { what: "contents copied" }, async (bar) => {
        bar.phase("listing the contents");
        const all = await Array.fromAsync(from.list({ olderThanMs: Infinity }));
        await each(all, bar, async (sha256, heard) => {
          const copied = await copyContent(from, to, sha256, heard);
          if (!copied) return;
          if (!copied.isNew) {
            moved.present++;
            return;
          }
          moved.copied++;
          moved.bytes += copied.bytes;
        });
      });

      const copied = `${counted(moved.copied, "content")} copied (${sizeText(moved.bytes)})`;
      context.print(moved, [`${copied}, ${counted(moved.present, "was", "were")} there already`]);
    },
  ),
];
