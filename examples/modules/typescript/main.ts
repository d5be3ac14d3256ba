/**
 * A module in TypeScript with a model of each kind: a sensor, a motor, a camera, a service that works with resources of
 * its machine, and a component of a type that no machine was built with.
 */

// deno-lint-ignore-file require-await -- every method of a resource gives a promise

import {
  CameraApi,
  encodePng,
  GenericServiceApi,
  integer,
  type Made,
  model,
  type Motor,
  MotorApi,
  number,
  object,
  Operation,
  ownApi,
  SensorApi,
  serveModule,
  SvcError,
  text,
  unsupported,
} from "svc-module";

const thermometer = model({
  api: SensorApi,
  name: "example:greenhouse:thermometer",
  attributes: object({ celsius: number("the temperature that it shows").default(20) }),
  construct: ({ attributes }) => ({
    getReadings: async () => ({ celsius: attributes.celsius }),
  }),
});

/** A fan turns by power alone: it knows neither its speed nor its position. */
const fan = model({
  api: MotorApi,
  name: "example:greenhouse:fan",
  attributes: object({ maxRpm: number("its speed at full power", { above: 0 }).default(1200) }),
  construct: ({ name, attributes: { maxRpm }, clock }): Made<Motor> => {
    let power = 0;
    const halt = async () => void (power = 0);
    const movement = new Operation(halt);
    const set = (value: number) => movement.run(async () => void (power = Math.max(-1, Math.min(value, 1))));
    return {
      setPower: async (value) => void await set(value),
      setRpm: async (rpm) => void await set(rpm / maxRpm),
      goFor: async (rpm, revolutions, call) => {
        if (rpm === 0) throw new SvcError("invalid_argument", "Cannot move motor at an RPM that is nearly 0");
        if (revolutions === 0) throw new SvcError("invalid_argument", "Cannot move motor for 0 revolutions");
        const speed = Math.min(Math.abs(rpm), maxRpm);
        await movement.run(async (signal) => {
          power = Math.sign(rpm * revolutions) * speed / maxRpm;
          await clock.sleep(Math.abs(revolutions) / speed * 60_000, signal);
          power = 0;
        }, call?.signal);
      },
      goTo: async () => {
        throw unsupported(name, "GoTo", "a fan has no position");
      },
      resetZeroPosition: async () => {
        throw unsupported(name, "ResetZeroPosition", "a fan has no position");
      },
      getPosition: async () => 0,
      getProperties: async () => ({ positionReporting: false }),
      isPowered: async () => ({ isOn: power !== 0, powerPct: power }),
      isMoving: async () => power !== 0,
      stop: () => movement.stop(),
    };
  },
});

const BLUE = [90, 160, 240];

/** A camera that looks at a sky of one colour. */
const sky = model({
  api: CameraApi,
  name: "example:greenhouse:sky",
  attributes: object({
    width: integer("pixels", { min: 1, max: 4096 }).default(32),
    height: integer("pixels", { min: 1, max: 4096 }).default(24),
  }).required(),
  construct: ({ name, attributes: { width, height }, clock }) => {
    const samples = new Uint8Array(width * height * 3).map((_, at) => BLUE[at % 3] ?? 0);
    const image = encodePng({ width, height, channels: 3, samples });
    return {
      getImages: async (wanted = []) => {
        const unknown = wanted.find((one) => one !== "sky");
        if (unknown !== undefined) {
          throw new SvcError("invalid_argument", `${name} has no source "${unknown}", wanted "sky"`);
        }
        return { images: [{ sourceName: "sky", mimeType: "image/png", image }], capturedAtMs: clock.nowMs() };
      },
      getPointCloud: async () => {
        throw unsupported(name, "GetPointCloud", "the sky is flat");
      },
      getProperties: async () => ({ supportsPcd: false, mimeTypes: ["image/png"] }),
    };
  },
});

/** A service that turns a motor of the machine on while a sensor of the machine is too warm. */
const climate = model({
  api: GenericServiceApi,
  name: "example:greenhouse:climate",
  attributes: object({
    thermometer: text("a sensor that reads celsius").required().names("sensor"),
    fan: text("a motor").required().names("motor"),
    tooWarm: number("from here on the fan turns").default(25),
  }).required(),
  construct: ({ attributes, dependencies, logger }) => {
    const sensor = dependencies.get(SensorApi, attributes.thermometer!);
    const motor = dependencies.get(MotorApi, attributes.fan!);
    return {
      doCommand: async () => {
        const { celsius = null } = await sensor.getReadings();
        const isWarm = celsius !== null && Number(celsius) >= attributes.tooWarm!;
        await motor.setPower(isWarm ? 0.5 : 0);
        logger.info("looked after the climate", { celsius, is_warm: isWarm });
        return { celsius, fan: isWarm };
      },
    };
  },
});

/** The type `example:component:counter`, as `protoc` describes its service. */
const count = ".example.counter.v1.Count";
const CounterApi = ownApi({
  name: "example:component:counter",
  service: "example.counter.v1.CounterService",
  file: {
    name: "example/counter.proto",
    package: "example.counter.v1",
    syntax: "proto3",
    messageType: [{
      name: "Count",
      field: [
        { name: "name", number: 1, type: "TYPE_STRING", label: "LABEL_OPTIONAL" },
        { name: "count", number: 2, type: "TYPE_INT32", label: "LABEL_OPTIONAL" },
      ],
    }],
    service: [{
      name: "CounterService",
      method: [
        { name: "Add", inputType: count, outputType: count },
        { name: "Watch", inputType: count, outputType: count, serverStreaming: true },
        { name: "AddAll", inputType: count, outputType: count, clientStreaming: true },
        { name: "Echo", inputType: count, outputType: count, clientStreaming: true, serverStreaming: true },
      ],
    }],
  },
});

const counter = model({
  api: CounterApi,
  name: "example:greenhouse:counter",
  attributes: object({ from: integer("where it begins").default(0) }),
  construct: ({ attributes }) => {
    let total = attributes.from;
    return {
      add: ({ count }: { count: number }) => ({ count: total += count }),
      watch: async function* ({ count }: { count: number }) {
        for (let step = 0; step < count; step++) yield { count: total + step };
      },
      addAll: async (requests: AsyncIterable<{ count: number }>) => {
        for await (const { count } of requests) total += count;
        return { count: total };
      },
      echo: async function* (requests: AsyncIterable<{ count: number }>) {
        for await (const { count } of requests) yield { count };
      },
    };
  },
});

await serveModule([thermometer, fan, sky, climate, counter]);
