/**
 * `svc-server` with a few more models, which do what no sensible driver does: for tests of the program as a whole.
 *
 * - sensor `gate`: its reading `allowed` is what was last commanded with `{"allow": …}`, at first its attribute.
 * - generic `part`: tells in the log that it is built and closed; `build` and `close`: "hangs" or "fails" instead.
 */

import { main } from "../../cli/server/main.ts";
import { MODELS } from "../../drivers/mod.ts";
import { GenericApi } from "../../lib/api/generic.ts";
import { type Sensor, SensorApi } from "../../lib/api/sensor.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { any, choice, type Json, type JsonObject, list, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

class Gate extends BaseComponent implements Sensor {
  constructor(name: ResourceName, private allowed: Json) {
    super(name);
  }

  getReadings(): Promise<JsonObject> {
    return Promise.resolve({ allowed: this.allowed });
  }

  override doCommand({ allow }: JsonObject): Promise<JsonObject> {
    this.allowed = allow;
    return Promise.resolve({});
  }
}

class Part extends BaseComponent {
  constructor(name: ResourceName, private readonly closing: string, private readonly logger: Logger) {
    super(name);
  }

  override close(): Promise<void> {
    this.logger.info(`closed ${this.name.short}`);
    return outcome(this.closing);
  }
}

function outcome(kind: string): Promise<void> {
  if (kind === "hangs") return new Promise(() => {});
  return kind === "fails" ? Promise.reject(new Error("it is stuck")) : Promise.resolve();
}

const GateSensor = model({
  api: SensorApi,
  name: "rdk:builtin:gate",
  doc: "A sensor that says what it is told to.",
  attributes: object({ allowed: any().default(true) }).required(),
  construct: ({ name, attributes }) => new Gate(name, attributes.allowed),
});

const PartGeneric = model({
  api: GenericApi,
  name: "rdk:builtin:part",
  doc: "A part that tells what happens to it.",
  attributes: object({
    build: choice("what it does instead of being built", ["", "hangs", "fails"]).default(""),
    close: choice("what it does instead of being closed", ["", "hangs", "fails"]).default(""),
    note: text(),
    uses: list(text()).default([]).names(),
  }).required(),
  construct: async ({ name, attributes, logger }) => {
    await outcome(attributes.build);
    logger.info(`built ${name.short}`);
    return new Part(name, attributes.close, logger);
  },
});

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost(), [...MODELS, GateSensor, PartGeneric]));
