/**
 * The output of a command from afar, as a command on this host prints it.
 *
 * Paths of files that went with the command read as the caller has named them. A control plane moves no cursor of the
 * caller's terminal: only colours pass.
 */

import type { Output, Screen } from "../../../lib/base/host.ts";
import type { OrderFile } from "./order.ts";

// deno-lint-ignore no-control-regex
const COLOUR = /\x1b\[(?:0|3[0-7])m/g;
/** A longer line is printed in pieces, in which no path is looked for. */
const LINE_CHARS_MAX = 1024 ** 2;

export class RemoteOutput {
  readonly #decoder = new TextDecoder();
  #rest = "";

  constructor(
    private readonly host: Output & Screen,
    private readonly files: readonly Pick<OrderFile, "path" | "given">[],
    private readonly json: boolean,
  ) {}

  /** Bytes of standard output. */
  output(bytes: Uint8Array): void {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    const end = this.#rest.lastIndexOf("\n") + 1;
    const whole = end > 0 || this.#rest.length < LINE_CHARS_MAX ? end : this.#rest.length;
    this.#write(this.#rest.slice(0, whole));
    this.#rest = this.#rest.slice(whole);
  }

  /** Lines of standard error. */
  remarks(text: string): void {
    this.host.writeError(this.#named(text, false));
  }

  end(): void {
    this.#write(this.#rest + this.#decoder.decode());
    this.#rest = "";
  }

  #write(text: string): void {
    if (text === "") return;
    const named = this.#named(text, this.json);
    if (!this.host.coloured()) return this.host.write(named);
    let at = 0;
    for (const { 0: colour, index } of named.matchAll(COLOUR)) {
      if (index > at) this.host.write(named.slice(at, index));
      this.host.show(colour);
      at = index + colour.length;
    }
    if (at < named.length) this.host.write(named.slice(at));
  }

  #named(text: string, json: boolean): string {
    return this.files.reduce((text, { path, given }) => {
      const shown = json ? JSON.stringify(given).slice(1, -1) : given;
      return text.replaceAll(new RegExp(`(?:/[^\\s"':()]*/)?${escapeForRegExp(path)}`, "g"), () => shown);
    }, text);
  }
}

function escapeForRegExp(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\-]/g, "\\$&");
}
