/**
 * The published TypeScript SDK's way to models, classes, boxes and discovery; prints what it saw as one JSON object.
 *
 * Use: ml_tour.mjs URL
 */

import process from "node:process";
import { readFile } from "node:fs/promises";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const { DiscoveryClient, MLModelClient, RobotClient, VisionClient } = await import("@viamrobotics/sdk");
const { createGrpcTransport } = await import("@connectrpc/connect-node");
globalThis.VIAM = {
  GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),
};

const robot = new RobotClient();
await robot.dial({ host: process.argv[2], noReconnect: true });
const seen = {};

const model = new MLModelClient(robot, "colors");
const { inputInfo, outputInfo } = (await model.metadata()).metadata;
seen.input = { name: inputInfo[0].name, type: inputInfo[0].dataType, shape: inputInfo[0].shape };
seen.output = outputInfo[0].name;
const data = Uint8Array.from({ length: 72 }, (_, at) => at % 3 === 1 ? 255 : 0);
const answer = await model.infer({
  tensors: { image: { shape: [1n, 4n, 6n, 3n], tensor: { case: "uint8Tensor", value: { data } } } },
});
const { probability } = answer.outputTensors.tensors;
seen.probability = { shape: probability.shape.map(Number), values: probability.tensor.value.data };

const classifier = new VisionClient(robot, "classifier");
const properties = await classifier.getProperties();
seen.properties = [properties.classificationsSupported, properties.detectionsSupported];
seen.fromCamera = (await classifier.getClassificationsFromCamera("camera", 2)).length;
const picture = await readFile("tests/data/camera/color.png");
seen.classes = (await classifier.getClassifications(picture, 600, 400, "image/png", 3)).map((one) =>
  one.className
);

const detector = new VisionClient(robot, "detector");
seen.boxes = (await detector.getDetectionsFromCamera("camera")).map((one) => one.className);
const all = await detector.captureAllFromCamera("camera", { returnDetections: true, returnImage: true });
seen.captured = [all.detections.length, all.image !== undefined];

seen.discovered = Array.isArray(await new DiscoveryClient(robot, "discovery").discoverResources());
console.log(JSON.stringify(seen));
process.exit(0);
