/**
 * Questions to a person: the line of text that standard input has next, from a terminal or a pipe.
 */

import type { Output } from "../../../lib/base/host.ts";
import { escaped } from "../../../lib/base/escape.ts";
import { SvcError } from "../../../lib/base/error.ts";

const ANSWER_BYTES_MAX = 4096;

/** Asks on standard error, so that standard output has the result alone. */
export function terminalQuestions(host: Output): (question: string) => string | undefined {
  return (question) => {
    host.writeError(escaped(question));
    const line = readLine();
    // The answer of a pipe is not shown by the terminal.
    if (!Deno.stdin.isTerminal()) host.writeError("\n");
    return line;
  };
}

function readLine(): string | undefined {
  const bytes: number[] = [];
  const byte = new Uint8Array(1);
  while (Deno.stdin.readSync(byte) === 1) {
    if (byte[0] === 0x0a) return textOf(bytes);
    bytes.push(...byte);
    if (bytes.length > ANSWER_BYTES_MAX) {
      throw new SvcError("invalid_argument", `an answer has at most ${ANSWER_BYTES_MAX} bytes`);
    }
  }
  return bytes.length > 0 ? textOf(bytes) : undefined;
}

function textOf(bytes: readonly number[]): string {
  return new TextDecoder().decode(Uint8Array.from(bytes)).replace(/\r$/, "");
}
