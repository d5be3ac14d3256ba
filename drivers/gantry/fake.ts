/** A gantry of one axis without hardware: reaches each goal at once. */

import { type Gantry, GantryApi } from "../../lib/api/actuators/gantry.ts";
import { type Kinematics, readModel } from "../../lib/api/shared/kinematics.ts";
import { SvcError } from "../../lib/base/error.ts";
import { number, object, text } from "../../lib/base/schema/schema.ts";
import { gantryModel } from "../../lib/geometry/arm_models.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { type KinematicModel, modelGeometries } from "../../lib/geometry/kinematics.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakeGantry = model({
  api: GantryApi,
  name: "rdk:builtin:fake",
  doc: "A gantry of one axis without hardware: reaches each goal at once.",
  attributes: object({
    lengthMm: number("length of the axis in millimetres; absent or 0 means 100", { min: 0 }),
    modelPath: text("path of a kinematics file, .json or .urdf, with one joint; used instead of a length"),
  }).required().with((settings, at) => {
    if (!settings.lengthMm || !settings.modelPath) return settings;
    return at.error("found both model_path and length_mm, wanted one of them");
  }),
  construct: async ({ name, attributes: { lengthMm, modelPath }, host }) => {
    const kinematics = modelPath
      ? await readModel(host, modelPath, name.short)
      : gantryModel(name.short, lengthMm ? [lengthMm] : undefined);
    const [joint, ...more] = kinematics.joints;
    if (joint && more.length === 0) return new Fake(name, kinematics, joint.max);
    const found = `the gantry of ${modelPath} has ${kinematics.joints.length} joints`;
    throw new SvcError("invalid_argument", `${found}, wanted exactly one`);
  },
});

class Fake extends BaseComponent implements Gantry {
  #positionMm: number;

  constructor(
    name: ResourceName,
    private readonly kinematics: KinematicModel,
    /** Length of the axis; the carriage starts in its middle. */
    private readonly lengthMm: number,
  ) {
    super(name);
    this.#positionMm = lengthMm / 2;
  }

  getPosition(): Promise<readonly number[]> {
    return Promise.resolve([this.#positionMm]);
  }

  moveToPosition(positionsMm: readonly number[]): Promise<void> {
    return Promise.try(() => {
      this.#positionMm = this.#onAxis(positionsMm);
    });
  }

  home(): Promise<boolean> {
    return Promise.resolve(true);
  }

  getLengths(): Promise<readonly number[]> {
    return Promise.resolve([this.lengthMm]);
  }

  getKinematics(): Promise<Kinematics> {
    return Promise.resolve(this.kinematics.source);
  }

  override getGeometries(): Promise<Geometry[]> {
    return Promise.try(() => modelGeometries(this.kinematics, [this.#positionMm]));
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(false);
  }

  #onAxis(positionsMm: readonly number[]): number {
    const [positionMm, ...more] = positionsMm;
    if (positionMm === undefined || more.length > 0) {
      const found = `moving ${this.name} to ${positionsMm.length} positions`;
      throw new SvcError("invalid_argument", `${found}, wanted 1`);
    }
    if (positionMm >= 0 && positionMm <= this.lengthMm) return positionMm;
    throw new SvcError("invalid_argument", `position ${positionMm} out of range [0, ${this.lengthMm}]`);
  }
}
