/** `svc-cloud files move`: copies all contents to another place while the control plane serves. */

import { SvcError } from "../../../lib/base/error.ts";
import { requireSameSum } from "../../../lib/cloud/store/files.ts";
import { type CloudCommand, cloudCommand } from "../command_context.ts";
import { openContents } from "./place.ts";

/** Contents that are copied at the same time; each takes one part of an upload in memory. */
const AT_ONCE = 4;

export const CONTENT_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "files move",
    ["PLACE"],
    "Copies all contents to a folder or to s3://BUCKET/PREFIX?endpoint=URL. Contents that are there already stay; " +
      "run it again after a break, and once more after serve has been restarted with --files PLACE.",
    [],
    async (context, [place]) => {
      const from = await context.files();
      const to = await openContents({ data: context.folder, files: place }, context.host, context.clock);
      const moved = { copied: 0, bytes: 0, present: 0 };
      const left = from.list({ olderThanMs: Infinity });

      const work = async () => {
        for (let next = await left.next(); !next.done; next = await left.next()) {
          const sha256 = next.value;
          const bytes = await from.size(sha256).catch(ifGone);
          if (bytes === undefined) continue;
          if (await to.size(sha256).catch(ifGone) === bytes) {
            moved.present++;
            continue;
          }
          const stored = await to.put(from.read(sha256));
          requireSameSum(stored.sha256, sha256);
          moved.copied++;
          moved.bytes += bytes;
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));

      const copied = `${moved.copied} contents copied (${(moved.bytes / 1e6).toFixed(1)} MB)`;
      context.print(moved, [`${copied}, ${moved.present} were there already`]);
    },
  ),
];

/** Contents come and go while the control plane serves. */
function ifGone(error: unknown): undefined {
  if (SvcError.from(error).code !== "not_found") throw error;
}
