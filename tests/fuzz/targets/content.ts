/** What tenants and modules hand over: archives, models, queries, captures; and what devices write. */

import { BSON } from "bson";
import { packed, unpacked } from "../../../lib/base/files/archive.ts";
import { checkModel } from "../../../lib/learn/onnx/check.ts";
import { Pipeline } from "../../../lib/cloud/content/pipeline.ts";
import { ContentFrameReader, headBytes } from "../../../lib/cloud/sandbox/content/frames.ts";
import { readDataYaml } from "../../../cli/ml/formats/data_yaml.ts";
import { decodedText, decodedXml, parsedJson } from "../../../cli/ml/formats/encodings.ts";
import { type Fix, readSentence } from "../../../drivers/movement_sensor/nmea.ts";
import { readEntry } from "../../../lib/agent/supervise/log_forwarding.ts";
import { decodeCapture } from "../../../lib/machine/diagnostics/ftdc_format.ts";
import { readPing } from "../../../lib/machine/diagnostics/network_check.ts";
import { readGateway } from "../../../lib/machine/diagnostics/system_network.ts";
import { onlyFileOf, zipOf } from "../../../cli/build/zip.ts";
import { boxesModel, colorsModel } from "../../support/onnx_models.ts";
import { bytesIn, pieces } from "../../support/pieces.ts";
import { bytesOf, type Target, textIn } from "../target.ts";

const ARCHIVE_LIMITS = { filesMax: 100, bytesMax: 1024 * 1024 };
const STAGES = [
  { $match: { part_id: "a", "data.readings.x": { $gt: 3, $in: [1, 2] } } },
  { $group: { _id: "$part_id", mean: { $avg: "$data.readings.x" }, all: { $push: "$$ROOT" } } },
  { $project: { x: { $cond: [{ $eq: ["$a", 1] }, "b", { $concat: ["$c", "d"] }] } } },
  { $sort: { x: -1 } },
  { $limit: 5 },
];

async function readArchive(bytes: Uint8Array): Promise<void> {
  for await (const { content } of unpacked(pieces(bytes), ARCHIVE_LIMITS)) for await (const _part of content);
}

async function readFrames(bytes: Uint8Array): Promise<void> {
  const reader = new ContentFrameReader(pieces(bytes, 100));
  while (await reader.next(10_000));
}

/** Stages one after another, each with its length, as BSON has it. */
function runStages(bytes: Uint8Array): void {
  const stages: Uint8Array[] = [];
  for (let at = 0; at + 4 <= bytes.length;) {
    const length = Math.max(5, new DataView(bytes.buffer, bytes.byteOffset).getUint32(at, true));
    stages.push(bytes.subarray(at, at + length));
    at += length;
  }
  const pipeline = Pipeline.read(stages);
  pipeline.narrowing();
}

const NMEA = [
  "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47",
  "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A",
  "$GPGSV,3,1,11,03,03,111,00,04,15,270,00,06,01,010,00,13,06,292,00*74",
];

/** A sentence gets its right sum, so that its fields are read. */
function readNmea(bytes: Uint8Array): void {
  const fix: Fix = { quality: 0 };
  const body = textIn(bytes).replace(/^\$/, "").replace(/\*.*$/s, "");
  const sum = [...body].reduce((before, letter) => before ^ letter.charCodeAt(0), 0) & 255;
  readSentence(`$${body}*${sum.toString(16).padStart(2, "0")}`, fix, 0);
  readSentence(textIn(bytes), fix, 0);
}

export const CONTENT: readonly Target[] = [
  {
    name: "content/tar",
    covers: ["base/files/archive.ts"],
    samples: async () => {
      const file = (path: string) => ({ path, bytes: 5, executable: true, content: [bytesOf("hello")] });
      return [await bytesIn(packed([file("a.txt"), file(`${"long/".repeat(30)}b.txt`)]))];
    },
    read: readArchive,
    refusals: ["invalid_argument", "data_loss", "resource_exhausted"],
  },
  {
    name: "content/zip",
    covers: ["cli/build/zip.ts"],
    samples: () => [new Uint8Array(zipOf([{ name: "a.txt", content: bytesOf("hello") }]))],
    read: (bytes) => onlyFileOf(new Uint8Array(bytes)),
    refusals: ["data_loss"],
  },
  {
    name: "content/onnx",
    covers: ["learn/onnx/check.ts"],
    samples: () => [colorsModel(), boxesModel()],
    words: ["Gemm", "ai.onnx.ml", "external_data", "location", "/etc/passwd", "ORTM"],
    read: checkModel,
  },
  {
    name: "content/mql",
    covers: ["sandbox/content/", "mingo"],
    samples: () => [new Uint8Array(STAGES.flatMap((stage) => [...BSON.serialize(stage)]))],
    words: [
      "$where",
      "$function",
      "$lookup",
      "$out",
      "$merge",
      "$expr",
      "$regex",
      "$facet",
      "$unionWith",
      "__proto__",
    ],
    read: runStages,
  },
  {
    name: "content/frames",
    covers: ["sandbox/content/frames.ts"],
    samples: () => [headBytes({ kind: "end" } as never)],
    read: readFrames,
    refusals: ["internal", "unavailable"],
  },
  {
    name: "content/yaml",
    covers: ["cli/ml/formats/", "yaml"],
    samples: () => [bytesOf("names:\n  0: cat\n  1: dog\nkpt_shape: [17, 3]\ntrain: images/train\n")],
    words: ["&a [*a", "!!js/function", "<<: *a", "\xff\xfe", "---\n", "|2-\n"],
    read: (bytes) => readDataYaml(decodedText(bytes)),
  },
  {
    name: "content/voc",
    covers: ["cli/ml/formats/encodings.ts"],
    samples: () => [bytesOf('<?xml version="1.0" encoding="latin1"?><annotation><object/></annotation>')],
    words: ['encoding="utf-16"', "\xff\xfe", "\xfe\xff"],
    read: decodedXml,
  },
  {
    name: "content/json",
    covers: ["cli/ml/formats/encodings.ts"],
    samples: () => [bytesOf('{"images": [], "annotations": [1.5, NaN], "categories": []}')],
    words: ["NaN", "-Infinity", "\xff\xfe"],
    read: (bytes) => parsedJson(decodedText(bytes)),
  },
  {
    name: "content/captures",
    covers: ["machine/diagnostics/ftdc_format.ts"],
    samples: () => [new Uint8Array(40)],
    read: decodeCapture,
  },
  {
    name: "device/nmea",
    covers: ["movement_sensor/nmea.ts"],
    samples: () => NMEA.map(bytesOf),
    words: ["GPGSA,", "GNVTG,", "GPGLL,", "GPZDA,", ",,,,"],
    read: readNmea,
  },
  {
    name: "device/journal",
    covers: ["agent/supervise/log_forwarding.ts"],
    samples: () => [
      bytesOf(
        '{"__CURSOR": "a", "SYSLOG_IDENTIFIER": "b", "_PID": "1", "PRIORITY": "6", "MESSAGE": [104, 105]}',
      ),
    ],
    words: ['"__REALTIME_TIMESTAMP":', "[[1],2]", "[1e9,-1]", "null"],
    read: (bytes) => readEntry(textIn(bytes)),
  },
  {
    name: "device/network",
    covers: ["machine/diagnostics/network_check.ts", "machine/diagnostics/system_network.ts"],
    samples: () => [
      bytesOf("3 packets transmitted, 3 received, 0% packet loss\nrtt min/avg/max/mdev = 1/2/3/0 ms"),
      bytesOf("Iface\tDestination\tGateway\neth0\t00000000\t0102A8C0\t0003"),
    ],
    read: (bytes) => {
      readPing(textIn(bytes));
      readGateway(textIn(bytes));
    },
  },
];
