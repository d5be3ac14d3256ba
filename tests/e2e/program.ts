/**
 * `svc-server` with one more model, which does what no sensible driver does: for tests of the program as a whole.
 *
 * The generic `part` tells in the log that it is built, stopped and closed; `build`, `stop` and `close`: "hangs" or
 * "fails" instead.
 */

import { main } from "../../cli/server/main.ts";
import { MODELS } from "../../drivers/mod.ts";
import { GenericApi } from "../../lib/api/actuators/generic.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { choice, list, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

class Part extends BaseComponent {
  constructor(
    name: ResourceName,
    private readonly instead: { readonly stop: string; readonly close: string },
    private readonly logger: Logger,
  ) {
    super(name);
  }

  stop(): Promise<void> {
    this.logger.info(`stopped ${this.name.short}`);
    return outcome(this.instead.stop);
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }

  override close(): Promise<void> {
    this.logger.info(`closed ${this.name.short}`);
    return outcome(this.instead.close);
  }
}

function outcome(kind: string): Promise<void> {
  if (kind === "hangs") return new Promise(() => {});
  return kind === "fails" ? Promise.reject(new Error("it is stuck")) : Promise.resolve();
}

const PartGeneric = model({
  api: GenericApi,
  name: "rdk:builtin:part",
  doc: "A part that tells what happens to it.",
  attributes: object({
    build: choice("what it does instead of being built", ["", "hangs", "fails"]).default(""),
    stop: choice("what it does instead of stopping", ["", "hangs", "fails"]).default(""),
    close: choice("what it does instead of being closed", ["", "hangs", "fails"]).default(""),
    note: text(),
    uses: list(text()).default([]).names(),
  }).required(),
  construct: async ({ name, attributes, logger }) => {
    await outcome(attributes.build);
    logger.info(`built ${name.short}`);
    return new Part(name, attributes, logger);
  },
});

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost(), [...MODELS, PartGeneric]));
