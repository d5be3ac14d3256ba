/**
 * Chains through what the control plane does by itself: webhooks of triggers, exports, and the page of the fleet.
 */

import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { AppService } from "../../../proto/gen/app_pb.ts";
import { DataService } from "../../../proto/gen/data_pb.ts";
import { DatasetService, DatasetType } from "../../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../../proto/gen/datasync_pb.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { Deliveries, type Delivery } from "../../../lib/cloud/notifications/deliveries.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { until } from "../../support/until.ts";
import type { Chain, ChainSetting } from "./chains.ts";
import { callAs, type Credentials, type Place } from "./tenant.ts";
import { awaitOutcome } from "../../support/outcome.ts";

export const OUTWARD_CHAINS: readonly Chain[] = [
  { name: "a trigger calls what only the control plane reaches", play: callInside },
  { name: "an export of another organization's data", play: exportOthers },
  { name: "a query in SQL reaches for files, settings and other organizations", play: queryOutside },
  { name: "a query in SQL finds what queries of others have left", play: queryLeftovers },
  { name: "the page of the fleet in another site, or with markup in names", play: useFleetPage },
];

/** Webhooks may reach it, as if it were in the operator's own network. */
export const ALLOWED_HOST = "127.0.0.77";
const DEADLINE_MS = 120_000;
const MARKUP = `<img src=x onerror="alert(1)"><script>alert(1)</script>`;
const EVIL = "https://evil.example";

/** What a query in SQL finds beside the readings of its organization. */
async function queryOutside({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  const sources = [
    "read_text('/etc/passwd')",
    "read_csv('/proc/self/environ')",
    "glob('/*')",
    "duckdb_settings()",
  ];
  const queries = [
    ...sources.map((source) => `SELECT * FROM ${source}`),
    ...[
      "SELECT getenv('HOME') AS x",
      "SELECT * FROM '/etc/passwd'",
      "SELECT * FROM read_parquet('http://127.0.0.1/')",
    ],
    ...["ATTACH '/tmp/x.db'", "COPY readings TO '/tmp/x'", "INSTALL httpfs", "LOAD httpfs", "PRAGMA version"],
    ...["SET enable_external_access = true", "SELECT * FROM readings; SET threads = 9"],
    ...[
      "SELECT list(range) AS x FROM range(1000000000)",
      "SELECT * FROM stored",
      "SELECT * FROM sqlite_master",
    ],
    `SELECT organization_id FROM readings WHERE organization_id = '${victim.ids.organization}'`,
  ];
  return await callAs(place, attacker.owner, async (channel) => {
    const data = client(DataService, channel);
    const found: string[] = [];
    for (const sqlQuery of queries) {
      const answer = await data.tabularDataBySQL({ organizationId: attacker.ids.organization, sqlQuery })
        .then(({ rawData }) => rawData.length, (error) => SvcError.from(error).code);
      const isRefused = answer === 0 || answer === "invalid_argument" || answer === "resource_exhausted";
      if (!isRefused) found.push(`${sqlQuery} was answered with ${answer}`);
    }
    const others = { organizationId: victim.ids.organization, sqlQuery: "SELECT COUNT(*) FROM readings" };
    const code = await awaitOutcome(data.tabularDataBySQL(others));
    if (code !== "permission_denied") found.push(`a query of another organization: ${code}`);
    return found;
  });
}

/** What queries find of the processes that have answered others, and wait for more. */
async function queryLeftovers({ place, folder, attacker, victim }: ChainSetting): Promise<string[]> {
  const [mine, theirs] = [attacker.ids.organization, victim.ids.organization];
  const outside = ["work/**", "work/*/*/*/*", "files/**"].flatMap((names) =>
    ["glob", "read_parquet", "read_blob"].map((name) => `SELECT * FROM ${name}('${folder}/${names}')`)
  );
  const parent = "SELECT * FROM read_parquet('../*/*')";
  const left = "SELECT organization_id AS id FROM readings UNION SELECT organization_id FROM origins";
  const found: string[] = [];
  const ask = async (key: Credentials, organizationId: string, sqlQuery: string) =>
    await callAs(place, key, async (channel) => {
      const { rawData } = await client(DataService, channel).tabularDataBySQL({ organizationId, sqlQuery });
      return rawData.map((one) => new TextDecoder().decode(one));
    });
  for (let round = 0; round < 2; round++) {
    await ask(victim.owner, theirs, "SELECT * FROM readings");
    for (const sqlQuery of [...outside, parent, left]) {
      const answer = await ask(attacker.owner, mine, sqlQuery)
        .then(({ length }) => `${length} rows`, (error) => SvcError.from(error).code);
      if (answer !== "invalid_argument") found.push(`${sqlQuery} was answered with ${answer}`);
    }
    const rows = await ask(attacker.owner, mine, "SELECT DISTINCT organization_id FROM readings");
    if (rows.some((one) => !one.includes(mine))) found.push("a query has readings of another organization");
    const stolen = await awaitOutcome(ask(attacker.owner, theirs, "SELECT * FROM readings"));
    if (stolen !== "permission_denied") found.push(`a query after one of the victim: ${stolen}`);
  }
  return found;
}

interface Listener {
  readonly port: number;
  /** What it was sent. */
  heard(): string;
  readonly connections: () => number;
  close(): Promise<void>;
}

/** Answers every request with a text. */
async function listen(host: string, answer: string): Promise<Listener> {
  let [heard, connections] = ["", 0];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    connections++;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (piece: Uint8Array) => {
      heard += new TextDecoder().decode(piece);
      if (heard.includes("\r\n\r\n")) socket.end(answer);
    });
  }).listen(0, host);
  await once(server, "listening");
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  };
  const { port } = server.address() as AddressInfo;
  return { port, heard: () => heard, connections: () => connections, close };
}

/** Spellings of addresses that are the control plane's own, its neighbours', or those of a cloud's metadata. */
function insides(port: number): string[] {
  const own = ["127.0.0.1", "localhost", "localhost.", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"];
  const spelt = ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1."];
  const others = ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "10.0.0.1", "192.168.0.1", "100.64.0.1"];
  const metadata = ["metadata.google.internal", "168.63.129.16"];
  return [...own, ...spelt, ...others, ...metadata].map((host) => `http://${host}:${port}/latest/meta-data/`);
}

/** By the key of the owner of one organization, who writes URLs into a configuration. */
async function callInside({ place, attacker }: ChainSetting): Promise<string[]> {
  const inside = await listen("127.0.0.1", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  const redirect = `HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:${inside.port}/\r\n\r\n`;
  const outside = await listen(ALLOWED_HOST, redirect);
  try {
    const targets = insides(inside.port);
    const partId = await callAs(place, attacker.owner, async (channel) => {
      const app = client(AppService, channel);
      const made = await app.newRobotPart({ robotId: attacker.ids.machine, partName: "caller" });
      const event = { type: "part_data_ingested", data_ingested: { data_types: ["binary"] } };
      const urls = [...targets, `http://${ALLOWED_HOST}:${outside.port}/`];
      const notifications = urls.map((value) => ({ type: "webhook", value }));
      const triggers = [
        { name: "plain", event, notifications: notifications.slice(0, 12) },
        { name: "others", event, notifications: notifications.slice(12) },
      ];
      await app.updateRobotPart({ id: made.partId, name: "caller", robotConfig: { triggers } });
      await photograph(channel, made.partId, "eye");
      await photograph(channel, made.partId, "eye\r\nX-Injected: 1").catch(() => {});
      return made.partId;
    });
    const ended = await deliveriesOf(place, attacker.ids.organization, partId);
    const found = ended.filter(({ state, target }) => state === "delivered" && targets.includes(target))
      .map(({ target }) => `${target} was called`);
    if (inside.connections() > 0) {
      found.push(`${inside.connections()} connections: ${inside.heard().slice(0, 200)}`);
    }
    if (outside.connections() === 0) found.push("the allowed receiver was not called: nothing was tried");
    if (/^x-injected/im.test(outside.heard())) found.push("a name became a field of the request");
    return found;
  } finally {
    await inside.close();
    await outside.close();
  }
}

async function photograph(channel: Channel, partId: string, componentName: string): Promise<void> {
  const about = {
    partId,
    componentName,
    componentType: "rdk:component:camera",
    methodName: "GetImages",
  };
  await client(DataSyncService, channel).dataCaptureUpload({
    metadata: { ...about, type: DataType.BINARY_SENSOR, fileExtension: ".png" },
    sensorContents: [{ data: { case: "binary", value: new Uint8Array([1, 2, 3]) } }],
  });
}

/** The notifications of a part, once each has been tried. */
async function deliveriesOf(place: Place, organizationId: string, partId: string): Promise<Delivery[]> {
  const store = place.connect();
  try {
    return await until(async () => {
      const found = await new Deliveries(store).list({ organizationId, partId, limit: 100 });
      const isOver = ({ state, attempts }: Delivery) => state !== "pending" || attempts > 0;
      return found.length > 0 && found.every(isOver) && found;
    }, { withinMs: DEADLINE_MS });
  } finally {
    await store.close();
  }
}

/** With the ids of the other's things, and through a dataset of one's own. */
async function exportOthers({ place, url, attacker, victim }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  const theirs = victim.ids.sequence_export;
  const link = await callAs(place, attacker.owner, async (channel) => {
    const datasets = client(DatasetService, channel), data = client(DataService, channel);
    const tries = {
      "an export began": () => datasets.startSequenceDatasetExport({ datasetId: victim.ids.dataset }),
      "an export was shown": () => datasets.getSequenceDatasetExport({ jobId: theirs }),
      "readings were exported": () => firstOf(data.exportTabularData({ partId: victim.ids.part })),
    };
    for (const [what, run] of Object.entries(tries)) if (await awaitOutcome(run()) === "ok") found.push(what);
    const { id } = await datasets.createDataset({
      organizationId: attacker.ids.organization,
      name: "thief",
      type: DatasetType.SEQUENCE_DATA,
    });
    await awaitOutcome(data.addSequencesToDataset({
      datasetId: id,
      sequenceIds: [attacker.ids.sequence, victim.ids.sequence],
    }));
    const { jobId } = await datasets.startSequenceDatasetExport({ datasetId: id });
    return await until(
      async () => (await datasets.getSequenceDatasetExport({ jobId })).downloadUrl || undefined,
      { withinMs: DEADLINE_MS },
    );
  });
  const own = new URL(link);
  const bytes = async (path: string) => {
    const answer = await fetch(new URL(path, url));
    const text = new TextDecoder("latin1").decode(await answer.arrayBuffer());
    return answer.ok ? text : undefined;
  };
  if ((await bytes(own.pathname + own.search))?.includes(victim.secret)) {
    found.push("its archive has the other's data");
  }
  const id = own.pathname.split("/").at(-1)!;
  const others = [
    own.pathname.replace(id, theirs) + own.search,
    own.pathname.replace(id, victim.ids.data) + own.search,
    `${own.pathname.replace(id, theirs)}?expires=99999999999999&signature=`,
    `${own.pathname}/../${theirs}${own.search}`,
  ];
  for (const path of others) if (await bytes(path) !== undefined) found.push(`${path} was answered`);
  return found;
}

async function firstOf<T>(stream: AsyncIterable<T>): Promise<T | undefined> {
  for await (const one of stream) return one;
  throw new SvcError("not_found", "nothing");
}

async function useFleetPage({ place, url, attacker }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  const partId = await callAs(place, attacker.owner, async (channel) => {
    const { partId } = await client(AppService, channel).newRobotPart({
      robotId: attacker.ids.machine,
      partName: MARKUP,
    });
    return partId;
  });
  const paths = [
    "/",
    "/index.html",
    `/machines/${partId}`,
    `/${encodeURIComponent(MARKUP)}`,
    "/machine-schema.json",
  ];
  for (const path of paths) {
    const answer = await fetch(url + path, { headers: { origin: EVIL } });
    const text = await answer.text();
    const field = (name: string) => answer.headers.get(name) ?? "";
    const isPage = field("content-type").startsWith("text/html");
    if (text.includes("onerror=")) found.push(`${path} has a name as markup`);
    if (isPage && !field("content-security-policy").includes("frame-ancestors 'none'")) {
      found.push(`${path} may be framed`);
    }
    const policy = field("content-security-policy");
    if (isPage && /unsafe-(inline|eval)|script-src[^;]*(\*|https?:)/.test(policy)) {
      found.push(`${path}: ${policy}`);
    }
    if (field("x-content-type-options") !== "nosniff" && answer.ok && isPage) {
      found.push(`${path} may be sniffed`);
    }
    if (field("access-control-allow-credentials") !== "") found.push(`${path} opens credentials to ${EVIL}`);
  }
  // A page of another site has no key, and gets nothing with one that the browser would add.
  const called = await fetch(`${url}/viam.app.v1.AppService/ListOrganizations`, {
    method: "POST",
    headers: { origin: EVIL, "content-type": "application/grpc-web", cookie: "session=1" },
    body: new Uint8Array(5),
  });
  await called.body?.cancel();
  if (called.headers.get("access-control-allow-credentials")) {
    found.push("calls of another site carry credentials");
  }
  if (!["16", "7"].includes(called.headers.get("grpc-status") ?? "16")) {
    found.push(`a call without a key was answered with ${called.headers.get("grpc-status")}`);
  }
  return found;
}
