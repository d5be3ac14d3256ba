/**
 * The PWM rule of microcontrollers: pulses have four frequencies in all. Every gpio motor uses 10000 Hz, which leaves
 * three others; a signal whose frequency is unimportant can share that of the motors.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { Problem } from "../../lib/base/schema/schema.ts";
import type { AnyModel, ConfigRule, ConfiguredResource, Registry } from "../../lib/resource/registry.ts";

/** The frequency of every motor's pulses. */
export const MOTOR_HZ = 10_000;

const FREQUENCIES_MAX = 4;
const GPIO_MOTOR = { api: "rdk:component:motor", model: "rdk:builtin:gpio" };

interface Signal {
  readonly resource: ConfiguredResource;
  readonly pin: string;
  readonly frequencyHz: number;
}

export const pwmRule: ConfigRule = ({ resources }, registry) => {
  const signals = resources.flatMap((resource) => signalsOf(resource, registry));
  return [...wrongMotors(signals), ...tooMany(signals)];
};

function signalsOf(resource: ConfiguredResource, registry: Registry): Signal[] {
  const { decoded, api, model } = resource;
  if (decoded === undefined) return [];
  const { pwm } = modelOf(registry, api, model) ?? {};
  return pwm?.(decoded).map(({ pin, frequencyHz = MOTOR_HZ }) => ({ resource, pin, frequencyHz })) ?? [];
}

function modelOf(registry: Registry, api: string, model: string): AnyModel | undefined {
  try {
    return registry.model(api, model);
  } catch (error) {
    // The resource itself reports its unknown model.
    if (SvcError.from(error).code === "not_found") return undefined;
    throw error;
  }
}

function wrongMotors(signals: readonly Signal[]): Problem[] {
  return signals.filter(({ resource: { api, model }, frequencyHz }) =>
    api === GPIO_MOTOR.api && model === GPIO_MOTOR.model && frequencyHz !== MOTOR_HZ
  ).map(({ resource, pin, frequencyHz }) => ({
    severity: "error",
    path: `${resource.path}.attributes.pwm_freq`,
    message: `found ${frequencyHz} Hz on pin ${pin}, wanted ${MOTOR_HZ} Hz, which all gpio motors share`,
  }));
}

function tooMany(signals: readonly Signal[]): Problem[] {
  const byFrequency = Map.groupBy(signals, ({ frequencyHz }) => frequencyHz);
  if (byFrequency.size <= FREQUENCIES_MAX) return [];
  const reported = [...byFrequency].sort(([a], [b]) => b - a).map(([frequencyHz, those]) => {
    const pins = those.map(({ resource, pin }) => `pin ${pin} of ${resource.name.short}`);
    return `${frequencyHz} Hz on ${pins.join(", ")}`;
  });
  const wanted = `wanted at most ${FREQUENCIES_MAX}, of which gpio motors take ${MOTOR_HZ} Hz`;
  const hint = `a signal whose frequency is unimportant can have ${MOTOR_HZ} Hz, too`;
  const message = `found ${byFrequency.size} PWM frequencies (${reported.join("; ")}), ${wanted}; ${hint}`;
  return [{ severity: "error", path: "components", message }];
}
