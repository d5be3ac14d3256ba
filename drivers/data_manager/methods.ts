/**
 * What can be captured: for each API its methods, under their published names, and what they give.
 *
 * Readings have the published shape of the method's answer.
 */

import { type Arm, ArmApi } from "../../lib/api/arm.ts";
import { type Board, BoardApi } from "../../lib/api/board.ts";
import { type Camera, CameraApi, type NamedImage } from "../../lib/api/camera.ts";
import { boxOf } from "../../lib/api/captured.ts";
import { type Encoder, EncoderApi } from "../../lib/api/encoder.ts";
import { type Gantry, GantryApi } from "../../lib/api/gantry.ts";
import { type Motor, MotorApi } from "../../lib/api/motor.ts";
import { type MovementSensor, MovementSensorApi } from "../../lib/api/movement_sensor.ts";
import { type PowerSensor, PowerSensorApi } from "../../lib/api/power_sensor.ts";
import { type Sensor, SensorApi } from "../../lib/api/sensor.ts";
import { type Servo, ServoApi } from "../../lib/api/servo.ts";
import { type Slam, SlamApi } from "../../lib/api/slam.ts";
import { type Vision, VisionApi } from "../../lib/api/vision.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Json, JsonObject } from "../../lib/base/schema/schema.ts";
import { imageSize, MIME } from "../../lib/geometry/image/image.ts";
import type { OrientationVector, Pose, Vec3 } from "../../lib/geometry/pose.ts";
import type { Call, Resource } from "../../lib/resource/resource.ts";
import type { CapturedFile } from "../../lib/resource/uplink.ts";

/** What one call gives: a reading or files. */
export type Taken = { readonly reading: JsonObject } | { readonly files: readonly TakenFile[] };

export type TakenFile = Pick<CapturedFile, "content" | "mimeType" | "annotations">;

export type Take = (resource: Resource, parameters: JsonObject, call: Call) => Promise<Taken>;

type Methods<R> = {
  readonly [method: string]: (resource: R, parameters: JsonObject, call: Call) => Promise<Taken>;
};

/** The method of an API, or what is wanted instead. */
export function takeOf(api: string, method: string): Take {
  const methods: Methods<Resource> = { ...METHODS[api], DoCommand: doCommand };
  if (Object.hasOwn(methods, method)) return methods[method];
  const known = Object.keys(methods).join(", ");
  throw new SvcError("invalid_argument", `found method "${method}" of ${api}, wanted one of ${known}`);
}

const readings: Methods<Sensor> = {
  Readings: async (sensor, _, call) => ({ reading: { readings: await sensor.getReadings(call) } }),
};

const arm: Methods<Arm> = {
  EndPosition: async (one, _, call) => ({ reading: { pose: pose(await one.getEndPosition(call)) } }),
  JointPositions: async (one, _, call) => ({
    reading: { positions: { values: [...await one.getJointPositions(call)] } },
  }),
};

const board: Methods<Board> = {
  Analogs: async (one, parameters, call) => {
    const { value, minRange, maxRange, stepSize } = await one.readAnalog(
      name("reader_name", parameters),
      call,
    );
    return { reading: { value, min_range: minRange, max_range: maxRange, step_size: stepSize } };
  },
  Gpios: async (one, parameters, call) => ({
    reading: { high: await one.getGpio(name("pin_name", parameters), call) },
  }),
};

const camera: Methods<Camera> = {
  GetImages: async (one, { filter_source_names: sources }, call) => {
    const { images } = await one.getImages(namesIn(sources), call);
    return { files: images.map(picture) };
  },
  ReadImage: async (one, { mime_type: wanted }, call) => {
    const { images } = await one.getImages([], call);
    const found = images.find(({ mimeType }) => mimeType === wanted) ?? images[0];
    if (!found) throw new SvcError("unavailable", `${one.name} gave no image`);
    return { files: [picture(found)] };
  },
  NextPointCloud: async (one, _, call) => ({
    files: [{ content: await one.getPointCloud(call), mimeType: MIME.pcd }],
  }),
};

const encoder: Methods<Encoder> = {
  TicksCount: async (one, _, call) => {
    const { value, type } = await one.getPosition(undefined, call);
    return { reading: { value, position_type: type === "ticks" ? 1 : 2 } };
  },
};

const gantry: Methods<Gantry> = {
  Position: async (one, _, call) => ({ reading: { positions_mm: [...await one.getPosition(call)] } }),
  Lengths: async (one, _, call) => ({ reading: { lengths_mm: [...await one.getLengths(call)] } }),
};

const motor: Methods<Motor> = {
  Position: async (one, _, call) => ({ reading: { position: await one.getPosition(call) } }),
  IsPowered: async (one, _, call) => {
    const { isOn, powerPct } = await one.isPowered(call);
    return { reading: { is_on: isOn, power_pct: powerPct } };
  },
};

const movementSensor: Methods<MovementSensor> = {
  ...readings,
  Position: async (one, _, call) => {
    const { coordinate: { latitude, longitude }, altitudeM } = await one.getPosition(call);
    return { reading: { coordinate: { latitude, longitude }, altitude_m: altitudeM } };
  },
  LinearVelocity: async (one, _, call) => ({
    reading: { linear_velocity: vector(await one.getLinearVelocity(call)) },
  }),
  AngularVelocity: async (one, _, call) => ({
    reading: { angular_velocity: vector(await one.getAngularVelocity(call)) },
  }),
  LinearAcceleration: async (one, _, call) => ({
    reading: { linear_acceleration: vector(await one.getLinearAcceleration(call)) },
  }),
  CompassHeading: async (one, _, call) => ({ reading: { value: await one.getCompassHeading(call) } }),
  Orientation: async (one, _, call) => ({
    reading: { orientation: orientation(await one.getOrientation(call)) },
  }),
};

const powerSensor: Methods<PowerSensor> = {
  ...readings,
  Voltage: async (one, _, call) => {
    const { volts, isAc } = await one.getVoltage(call);
    return { reading: { volts, is_ac: isAc } };
  },
  Current: async (one, _, call) => {
    const { amperes, isAc } = await one.getCurrent(call);
    return { reading: { amperes, is_ac: isAc } };
  },
  Power: async (one, _, call) => ({ reading: { watts: await one.getPower(call) } }),
};

const servo: Methods<Servo> = {
  Position: async (one, _, call) => ({ reading: { position_deg: await one.getPosition(call) } }),
};

const slam: Methods<Slam> = {
  Position: async (one, _, call) => ({ reading: { pose: pose(await one.getPosition(call)) } }),
  PointCloudMap: async (one, _, call) => {
    const parts = await Array.fromAsync(one.getPointCloudMap({}, call));
    const content = new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
    return { files: [{ content, mimeType: MIME.pcd }] };
  },
};

const vision: Methods<Vision> = {
  CaptureAllFromCamera: async (one, parameters, call) => {
    const wanted = { image: true, detections: true, classifications: true };
    const found = await one.captureAllFromCamera(name("camera_name", parameters), wanted, call);
    if (!found.image) throw new SvcError("unavailable", `${one.name} gave no image`);
    const { min_confidence_score: least } = parameters;
    const sure = ({ confidence }: { confidence: number }) => confidence >= Number(least ?? 0);
    const { width, height } = imageSize(found.image.image);
    const boxes = found.detections.filter(sure).flatMap(
      ({ className: label, confidence, box, normalized }) => {
        const { xMin, yMin, xMax, yMax } = normalized ?? box ?? {};
        if (xMin === undefined || yMin === undefined || xMax === undefined || yMax === undefined) return [];
        const [w, h] = normalized ? [1, 1] : [width, height];
        return [{ label, confidence, xMin: xMin / w, yMin: yMin / h, xMax: xMax / w, yMax: yMax / h }];
      },
    );
    const classifications = found.classifications.filter(sure).map(({ className: label, confidence }) => {
      return { label, confidence };
    });
    return { files: [{ ...picture(found.image), annotations: { boxes, classifications } }] };
  },
};

const METHODS: { readonly [api: string]: object } = {
  [ArmApi.name]: arm,
  [BoardApi.name]: board,
  [CameraApi.name]: camera,
  [EncoderApi.name]: encoder,
  [GantryApi.name]: gantry,
  [MotorApi.name]: motor,
  [MovementSensorApi.name]: movementSensor,
  [PowerSensorApi.name]: powerSensor,
  [SensorApi.name]: readings,
  [ServoApi.name]: servo,
  [SlamApi.name]: slam,
  [VisionApi.name]: vision,
};

async function doCommand(resource: Resource, { docommand_input: command }: JsonObject, call: Call) {
  const answer = await resource.doCommand((command ?? {}) as JsonObject, call);
  return { reading: { docommand_output: answer } };
}

function picture({ image: content, mimeType, annotations }: NamedImage): TakenFile {
  if (!annotations) return { content, mimeType };
  const boxes = annotations.bboxes.map(boxOf);
  const classifications = annotations.classifications.map(({ label, confidence }) => ({ label, confidence }));
  return { content, mimeType, annotations: { boxes, classifications } };
}

function vector({ x, y, z }: Vec3): JsonObject {
  return { x, y, z };
}

function orientation({ oX, oY, oZ, theta }: OrientationVector): JsonObject {
  return { o_x: oX, o_y: oY, o_z: oZ, theta };
}

function pose(one: Pose): JsonObject {
  return { ...vector(one), ...orientation(one) };
}

/** A parameter without which there is nothing to capture. */
function name(parameter: string, parameters: JsonObject): string {
  const value = parameters[parameter];
  if (typeof value === "string" && value !== "") return value;
  throw new SvcError("invalid_argument", `additional_params has no ${parameter}, wanted the name to capture`);
}

function namesIn(value: Json | undefined): string[] {
  return (Array.isArray(value) ? value : []).filter((one) => typeof one === "string");
}
