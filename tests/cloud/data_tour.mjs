/**
 * A tour of the data of a control plane with the published TypeScript SDK, as a program of its own: it runs in Node
 * and in Deno. It prints one JSON object of what it saw; the test that started it judges.
 *
 * Use: data_tour.mjs URL KEY_ID KEY [grpc|grpc-web]
 */

import process from "node:process";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const { createViamClient, dataApi } = await import("@viamrobotics/sdk");
const [serviceHost, authEntity, payload, transport = "grpc-web"] = process.argv.slice(2);

if (transport === "grpc") {
  const { createGrpcTransport } = await import("@connectrpc/connect-node");
  globalThis.VIAM = {
    GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),
  };
}

const { appClient: app, dataClient: data, billingClient: billing, provisioningClient: devices } =
  await createViamClient({
    serviceHost,
    credentials: { type: "api-key", authEntity, payload },
  });
const text = (bytes) => new TextDecoder().decode(bytes);
const bytes = (content) => new TextEncoder().encode(content);
const at = (number) => new Date(1_700_000_000_000 + number);
const codeOf = (run) => run.then(() => "done", ({ code }) => code);
const answerOf = (run) => run.then(() => "done", ({ code, rawMessage }) => `${code}: ${rawMessage}`);
const seen = {};

const [{ id: organizationId }] = await app.listOrganizations();
const location = await app.createLocation(organizationId, `data ${transport}`);
const [{ id: partId }] = await app.getRobotParts(await app.newRobot(location.id, "rover"));

const dataset = await data.createDataset(`cats ${transport}`, organizationId);
const upload = (content, number, tags, datasets) =>
  data.binaryDataCaptureUpload(
    bytes(content),
    partId,
    "rdk:component:camera",
    "cam",
    "GetImages",
    ".jpg",
    [at(number), at(number + 5)],
    tags,
    datasets,
  );
const ids = [await upload("zero", 0, ["red"], [dataset]), await upload("one", 1), await upload("two", 2)];
seen.again = await upload("zero", 0, ["red"]) === ids[0];
seen.file = await data.fileUpload(bytes("a file"), partId, { fileName: "notes.txt", tags: ["note"] }).then(
  () => "done",
  ({ code }) => code,
);

const mine = data.constructor.createFilter({ partId, mimeType: ["image/jpeg"] });
const first = await data.binaryDataByFilter(mine, 2, dataApi.Order.ASCENDING);
const rest = await data.binaryDataByFilter(mine, 2, dataApi.Order.ASCENDING, first.last);
const last = await data.binaryDataByFilter(mine, 2, dataApi.Order.ASCENDING, rest.last);
seen.pages = [first, rest, last].map((page) => page.data.map(({ binary }) => text(binary)));
seen.count = Number((await data.binaryDataByFilter(mine, undefined, undefined, "", false, true)).count);
const [{ metadata }] = await data.binaryDataByIds([ids[0]]);
seen.metadata = {
  id: metadata.binaryDataId === ids[0],
  tags: metadata.captureMetadata.tags,
  robot: metadata.captureMetadata.robotName,
  component: metadata.captureMetadata.componentName,
  mimeType: metadata.captureMetadata.mimeType,
  datasets: metadata.datasetIds.length,
  at: metadata.timeRequested.toDate().getTime() === at(0).getTime(),
};

await data.addTagsToBinaryDataByIds(["blue", "green"], [ids[1], ids[2]]);
seen.untagged = Number(await data.removeTagsFromBinaryDataByIds(["green"], [ids[1]]));
seen.tags = await data.tagsByFilter(mine);
await data.addTagsToBinaryDataByFilter(["all"], mine);
seen.taggedAll = (await data.tagsByFilter(mine)).includes("all");
seen.untaggedAll = Number(await data.removeTagsFromBinaryDataByFilter(["all"], mine));
const box = await data.addBoundingBoxToImageById(ids[0], "cat", 0.1, 0.2, 0.5, 0.6, 0.75);
await data.updateBoundingBox(ids[0], box, "dog", 0.1, 0.2, 0.5, 0.7);
seen.labels = await data.boundingBoxLabelsByFilter(mine);
seen.boxes = (await data.binaryDataByIds([ids[0]]))[0].metadata.annotations.bboxes.map((one) => ({
  label: one.label,
  yMax: one.yMaxNormalized,
  confidence: one.confidence,
}));
await data.removeBoundingBoxFromImageById(ids[0], box);
seen.outside = await codeOf(data.addBoundingBoxToImageById(ids[0], "cat", 0.1, 0.2, 1.5, 0.6));

await data.addBinaryDataToDatasetByIds([ids[1], ids[2]], dataset);
await data.removeBinaryDataFromDatasetByIds([ids[2]], dataset);
await data.renameDataset(dataset, `felines ${transport}`);
seen.datasets = (await data.listDatasetsByOrganizationID(organizationId)).map(({ name }) => name)
  .filter((name) => name.endsWith(` ${transport}`));
seen.all = (await data.listDatasetsByIds([])).some(({ id }) => id === dataset);
seen.inDataset =
  (await data.binaryDataByFilter(data.constructor.createFilter({ datasetId: dataset }))).data.length;
await data.deleteDataset(dataset);
seen.noDataset = await codeOf(data.listDatasetsByIds([dataset]));

const url = await data.createBinaryDataSignedURL(ids[1]);
seen.link = await fetch(url).then((response) => response.text());

await data.tabularDataCaptureUpload(
  [{ readings: { celsius: 20 } }, { readings: { celsius: 21.5 } }],
  partId,
  "rdk:component:sensor",
  "thermometer",
  "Readings",
  [[at(0), at(1)], [at(10), at(11)]],
  ["warm"],
);
const source = [partId, "thermometer", "rdk:component:sensor", "Readings"];
const [captured, , latest] = await data.getLatestTabularData(...source);
seen.latest = { celsius: latest.readings.celsius, at: captured.getTime() === at(10).getTime() };
seen.exported = (await data.exportTabularData(...source)).map(({ payload, tags, methodName }) => ({
  celsius: payload.readings.celsius,
  tags,
  methodName,
}));
const found = await data.tabularDataByFilter(data.constructor.createFilter({ partId }));
seen.tabular = found.data.map(({ data, metadata }) => [data.readings.celsius, metadata.componentName]);
seen.nothing = await data.getLatestTabularData(partId, "thermometer", "rdk:component:sensor", "Nothing");

const mql = [{ $match: { component_name: "thermometer", time_received: { $gte: at(0) } } }, { $limit: 1 }];
seen.queried = (await data.tabularDataByMQL(organizationId, mql)).map((one) => [
  one.data,
  one.time_requested.getTime() === at(0).getTime(),
]);
const mean = { $avg: "$data.readings.celsius" };
seen.grouped = await data.tabularDataByMQL(organizationId, [{ $group: { _id: "$component_name", mean } }]);

const sql = "SELECT component_name, data.readings.celsius FROM readings ORDER BY time_received DESC LIMIT 1";
seen.selected = await data.tabularDataBySQL(organizationId, sql);

seen.deleted = [
  Number(await data.deleteBinaryDataByIds([ids[0]])),
  Number(
    await data.deleteBinaryDataByFilter(
      data.constructor.createFilter({ organizationIds: [organizationId], partId }),
    ),
  ) >= 2,
  Number(await data.deleteTabularData(organizationId, 0)),
];
seen.pipelines = (await data.listDataPipelines(organizationId)).length;
seen.unserved = [
  await answerOf(data.getDatabaseConnection(organizationId)),
  await answerOf(billing.getCurrentMonthUsage(organizationId)),
  await answerOf(devices.getNetworkList()),
];
console.log(JSON.stringify(seen));
process.exit(0);
