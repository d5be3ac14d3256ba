/**
 * Secret: a text that prints, logs and serializes as stars.
 *
 * Only `reveal` returns the text; to compare two secrets, reveal both.
 */

import { STARS } from "./schema/json_secrets.ts";
import { ConfigField, type DecodeContext } from "./schema/schema.ts";

export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The text itself: for the code that sends or checks it. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return STARS;
  }

  toJSON(): string {
    return STARS;
  }

  [Symbol.for("Deno.customInspect")](): string {
    return STARS;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return STARS;
  }
}

/** A setting that holds a secret; an empty text counts as absent. Its errors do not show what was found. */
export function secret(doc = ""): ConfigField<Secret | undefined> {
  const wanted = "a string";
  const read = (value: unknown, at: DecodeContext) => {
    if (typeof value !== "string") return at.error(`found something else (not shown), wanted ${wanted}`);
    return value === "" ? undefined : new Secret(value);
  };
  return new ConfigField<Secret | undefined>({
    doc,
    json: { type: "string", writeOnly: true },
    wanted,
    read,
  });
}
