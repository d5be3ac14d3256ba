/** `config edit` at a control plane elsewhere: the person edits here, and the control plane checks and saves. */

import { join } from "node:path";
import { SvcError } from "../../../lib/base/error.ts";
import { editableText, editText } from "../configs/editing.ts";
import { CONFIGURATION_COMMANDS } from "../configs/configurations.ts";
import { type AnyValues, buildOrder } from "./order.ts";
import { RemoteOutput } from "./output.ts";
import { REMOTE_ROWS, type RemoteRow } from "./rows.ts";
import { type RemoteContext, sendOrder } from "./send.ts";

/** Returns the exit code. */
export async function editFromAfar(
  context: RemoteContext,
  [part = ""]: readonly string[],
  { force, json }: AnyValues,
): Promise<number> {
  const { host } = context;
  const shown: string[] = [];
  const decoder = new TextDecoder();
  const shownCode = await send(context, "config show", [part], {}, {
    output: (bytes) => void shown.push(decoder.decode(bytes, { stream: true })),
    remarks: (text) => host.writeError(text),
    end: () => {},
  });
  if (shownCode !== 0) return shownCode;
  const before = editableText(JSON.parse(shown.join("")));

  const folder = await host.temporaryFolder("svc-config-");
  const expected = join(folder, "expected.json");
  await host.writeFile(expected, before, { mode: 0o600 });
  try {
    const isChanged = await editText(host, `${part}.json`, before, async (file) => {
      const code = await send(context, "config set", [part, file], { force, json, expected });
      if (code !== 0) throw new SvcError("aborted", "nothing is saved");
    });
    if (!isChanged) host.write(json ? `${JSON.stringify({ part, diff: [] })}\n` : "nothing changes\n");
    return 0;
  } finally {
    await host.removeTree(folder);
  }
}

async function send(
  context: RemoteContext,
  words: string,
  given: readonly string[],
  values: AnyValues,
  output?: Pick<RemoteOutput, "output" | "remarks" | "end">,
): Promise<number> {
  const { host } = context;
  const command = CONFIGURATION_COMMANDS.find((one) => one.words === words)!;
  const order = await buildOrder(command, REMOTE_ROWS[words] as RemoteRow, given, values, host);
  return await sendOrder(context, order, output ?? new RemoteOutput(host, order.files, values.json === true));
}
