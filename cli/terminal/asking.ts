/**
 * What people answer at a terminal, or hand over on standard input.
 *
 * The room owns questions to people.
 */

import type { Clock } from "../../lib/base/clock.ts";
import type { Output } from "../../lib/base/host.ts";

/** Time limit for a line of standard input. */
const INPUT_MS = 10_000;
const LINE_CHARS_MAX = 4096;

/** The first line of standard input, within the time limit. */
export async function firstLine(clock: Clock): Promise<string | undefined> {
  const reader = Deno.stdin.readable.pipeThrough(new TextDecoderStream()).getReader();
  const callOff = clock.after(INPUT_MS, () => void reader.cancel().catch(() => {}));
  try {
    let text = "";
    while (!text.includes("\n") && text.length < LINE_CHARS_MAX) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
    }
    return text === "" ? undefined : text.split(/\r?\n/, 1)[0];
  } finally {
    callOff();
    await reader.cancel().catch(() => {});
  }
}

/** Whether a person can be asked, and sees the question. */
export function canAsk(): boolean {
  return Deno.stdin.isTerminal() && Deno.stderr.isTerminal();
}

/** Reads a line without showing it; `undefined` if the person gives up. */
export function askHidden(
  host: Pick<Output, "writeError">,
  question: string,
  terminal: Pick<typeof Deno.stdin, "readSync" | "setRaw"> = Deno.stdin,
): string | undefined {
  host.writeError(question);
  terminal.setRaw(true);
  try {
    let line = "";
    const byte = new Uint8Array(1);
    const decoder = new TextDecoder();
    while (terminal.readSync(byte) === 1) {
      // A letter of several bytes comes with its last one.
      const letter = decoder.decode(byte, { stream: true });
      if (letter === "\r" || letter === "\n") return line;
      // Ctrl-C, Ctrl-D.
      if (byte[0] === 3 || byte[0] === 4) return undefined;
      line = edited(line, letter);
    }
    return line;
  } finally {
    terminal.setRaw(false);
    host.writeError("\n");
  }
}

/** The line after a key: Backspace, for which some terminals send Ctrl-H, takes one letter back, and Ctrl-U all. */
function edited(line: string, key: string): string {
  if (key === "\x7f" || key === "\b") return [...line].slice(0, -1).join("");
  return key === "\x15" ? "" : line + key;
}
