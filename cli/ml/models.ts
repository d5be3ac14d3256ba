/**
 * The commands on trained models: listing, downloading, and trying them on an image.
 */

import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { ListPackagesResponseSchema, type Package, PackageType } from "../../proto/gen/packages_pb.ts";
import { type Annotations, AnnotationsSchema } from "../../proto/gen/annotations_pb.ts";
import { FileError, type ReadFiles } from "../../lib/base/files/files.ts";
import { unpackInto } from "../../lib/base/files/archive.ts";
import { fileNameFrom } from "../../lib/base/files/names.ts";
import { type Code, messageOf, SvcError } from "../../lib/base/error.ts";
import { shownUrl } from "../../lib/base/log/shown_url.ts";
import { suggest } from "../../lib/base/schema/suggest.ts";
import { Crc32c } from "../../lib/cloud_client/crc32c.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { table } from "../table.ts";
import { ML_EXIT, type MlCommand, mlCommand } from "./command.ts";
import { fetchPackages, findPart, jsonNames, PACKAGE_COLUMNS, packageCells } from "./lookup.ts";
import { metricsText, mistakesText } from "./measured.ts";
import type { Account, MlCommandContext, Services } from "./command_context.ts";
import { upload } from "./data/transfer.ts";

const ATTEMPTS = 5;
const RETRY_MS = 1_000;
/** Time without data after which a download begins again. */
const SILENCE_MS = 30_000;
const UNPACKED = { filesMax: 10_000, bytesMax: 8 * 1024 ** 3 };
const INFERENCE_MS = 2 * 60 * 1000;

const VERSION = {
  name: "model-version",
  type: "string",
  default: "latest",
  value: "VERSION",
  help: "The version of the model.",
} as const;

export const MODEL_COMMANDS: readonly MlCommand[] = [
  mlCommand(
    "models list",
    ["[MODEL]"],
    "Lists the models of an organization, the newest first.",
    [],
    async (context, [name = ""]) => {
      const found = await fetchPackages(context, PackageType.ML_MODEL, name);
      const message = create(ListPackagesResponseSchema, { packages: found });
      context.listMessage(ListPackagesResponseSchema, message, {
        columns: [
          ...PACKAGE_COLUMNS,
          { heading: "MEASURED", cutTo: 14, rank: 3 },
          { heading: "MISTAKES", cutTo: 14, rank: 4 },
        ],
        rows: found.map((one) => [...packageCells(one), metricsText(one) || "-", mistakesText(one) || "-"]),
        empty: "there is no model yet: svc-ml submit --model-type TYPE trains one",
      }, await jsonNames(context));
    },
  ),
  mlCommand(
    "models download",
    ["MODEL"],
    "Downloads a model and checks it; an interrupted download resumes.",
    [
      VERSION,
      {
        name: "destination",
        short: "d",
        type: "string",
        default: ".",
        value: "FOLDER",
        help: "Where to.",
      },
      { name: "extract", type: "bool", default: false, help: "Unpack it into a folder of the model's name." },
    ],
    async (context, [name], { modelVersion, destination, extract }) => {
      const services = await context.services();
      const model = await findModel(context, services, name, modelVersion);
      const [own, version] = [model.info?.name || name, model.info?.version || modelVersion];
      const file = join(destination, `${fileNameFrom(own)}-${fileNameFrom(version)}.tar.gz`);
      await context.host.makeFolder(destination);
      await download(context, services.account, model, file);
      if (!extract) return void context.print({ name: own, version, file }, [file]);
      const folder = join(destination, `${fileNameFrom(own)}-${fileNameFrom(version)}`);
      const files = await unpackInto(context.host, folder, context.host.readPieces(file), UNPACKED);
      context.print({ name: own, version, file, folder, files }, files.map((one) => join(folder, one)));
    },
  ),
  mlCommand(
    "models delete",
    ["MODEL", "VERSION"],
    "Removes a version of a model. Machines that have it keep it; others cannot fetch it any more.",
    [],
    async (context, [name, wanted]) => {
      const services = await context.services();
      const { info, id } = await findModel(context, services, name, wanted);
      // A version "latest" would mean another one every time.
      if (info?.type !== PackageType.ML_MODEL || info.version !== wanted) {
        const found = `found version "${info?.version ?? ""}"`;
        throw new SvcError(
          "invalid_argument",
          `models delete: ${found} for "${wanted}", wanted the version itself`,
        );
      }
      const version = info.version;
      await services.packages.deletePackage({ id, version, type: PackageType.ML_MODEL }, context.limits);
      context.print({ name: info.name, version }, [`${info.name} ${version}`]);
    },
  ),
  mlCommand(
    "infer",
    ["FILE"],
    "Runs a model of the registry on an image, which is uploaded for that and removed again.",
    [
      {
        name: "model",
        type: "string",
        default: "",
        value: "MODEL",
        help: "The model: its name, or org:name.",
      },
      VERSION,
      {
        name: "part-id",
        type: "string",
        default: "",
        value: "PART",
        help: "The part that the image comes from; by default the only machine's, or none.",
      },
      {
        name: "keep",
        type: "bool",
        default: false,
        help: "Leave the image with the data of that part or the organization.",
      },
    ],
    async (context, [file], { model, modelVersion, partId, keep }) => {
      if (model === "") {
        throw new SvcError("invalid_argument", "--model is missing, wanted the name of a model");
      }
      const services = await context.services();
      const organizationId = await context.organization();
      const from = await findPart(context, partId);
      const image = { path: file, fileName: basename(file), mimeType: "", labels: [], boxes: [] };
      // The time makes it a distinct image, which can be removed.
      const capturedMs = context.clock.nowMs();
      const binaryDataId = await upload(
        context,
        services,
        { ...image, capturedMs },
        from === "" ? { partId: "", organizationId } : { partId: from },
      );
      try {
        const { annotations } = await services.inference.getInference({
          registryItemId: model.includes(":") ? model : `${organizationId}:${model}`,
          registryItemVersion: modelVersion,
          organizationId,
          binaryDataId,
        }, { timeoutMs: INFERENCE_MS, ...context.limits });
        const seen = annotations ?? create(AnnotationsSchema);
        context.printMessage(AnnotationsSchema, seen, describeSeen(seen));
        return ML_EXIT.ok;
      } finally {
        if (!keep) await services.data.deleteBinaryDataByIDs({ binaryDataIds: [binaryDataId] });
      }
    },
  ),
];

async function findModel(
  context: MlCommandContext,
  { packages }: Services,
  name: string,
  version: string,
): Promise<Package> {
  const organizationId = await context.organization();
  const id = /[/:]/.test(name) ? name.replace(":", "/") : `${organizationId}/${name}`;
  try {
    const request = { id, version, includeUrl: true, type: PackageType.ML_MODEL };
    const found = (await packages.getPackage(request, context.limits)).package;
    if (found) return found;
  } catch (error) {
    if (SvcError.from(error).code !== "not_found") throw error;
    const { packages: all } = await packages.listPackages(
      { organizationId, type: PackageType.ML_MODEL },
      context.limits,
    );
    const names = [...new Set(all.map(({ info }) => info?.name ?? ""))];
    const near = suggest(name, names);
    if (names.includes(name) || !near) throw error;
    throw new SvcError("not_found", `there is no model "${name}"; did you mean ${near}?`, { cause: error });
  }
  throw new SvcError("not_found", `there is no model "${id}", version "${version}"`);
}

/** Downloads a package to a file, which appears only when it is complete. */
async function download(
  context: MlCommandContext,
  account: Account,
  model: Package,
  file: string,
): Promise<void> {
  const wanted = model.checksum;
  const partial = `${file}.part`;
  if (await context.host.fileSize(file) !== undefined && await isWhole(context.host, file, wanted)) {
    return context.note(`${file} is there already`);
  }
  for (let attempt = 1;; attempt++) {
    try {
      await fetchRest(context, account, model.url, partial);
      break;
    } catch (error) {
      context.signal.throwIfAborted();
      if (SvcError.from(error).code !== "unavailable" || attempt === ATTEMPTS) throw error;
      context.note(`${messageOf(error)}; trying again`);
      await context.clock.sleep(attempt * RETRY_MS, context.signal);
    }
  }
  if (!await isWhole(context.host, partial, wanted)) {
    context.host.removeFile(partial);
    throw new SvcError(
      "data_loss",
      `the downloaded file differs from the published one (checksum ${wanted}): try again`,
    );
  }
  await context.host.moveDurably(partial, file);
}

/** Fetches the missing part of a file. Throws `unavailable` if a retry may help. */
async function fetchRest(
  context: MlCommandContext,
  account: Account,
  url: string,
  partial: string,
): Promise<void> {
  const have = await context.host.fileSize(partial) ?? 0;
  const headers: Record<string, string> = have > 0 ? { range: `bytes=${have}-` } : {};
  // The key is for the control plane alone; elsewhere the link itself authorizes.
  const isOwn = new URL(url).origin === new URL(account.baseUrl).origin;
  if (isOwn) Object.assign(headers, { key_id: account.keyId, key: account.key.reveal() });
  const http = account.ca === undefined ? undefined : Deno.createHttpClient({ caCerts: [account.ca] });
  const silent = new AbortController();
  let watch = context.clock.after(SILENCE_MS, () => silent.abort(tooSilent()));
  try {
    const signal = AbortSignal.any([context.signal, silent.signal]);
    // A redirection would take the key along.
    const redirect = isOwn ? "manual" as const : "follow" as const;
    const init = { headers, signal, redirect, ...http ? { client: http } : {} };
    const response = await fetch(url, init).catch((cause) => {
      throw unreachable(url, cause);
    });
    const elsewhere = isOwn && response.status >= 300 && response.status < 400 &&
      response.headers.get("location");
    if (elsewhere) {
      await response.body?.cancel();
      const target = new URL(elsewhere, url);
      if (target.origin === new URL(url).origin) throw refused(url, response.status);
      return await fetchRest(context, account, target.href, partial);
    }
    // The partial file is complete, or too long.
    if (response.status === 416) return await response.body?.cancel();
    if (!response.ok || !response.body) {
      await response.body?.cancel();
      throw refused(url, response.status);
    }
    const out = await context.host.open(partial, response.status === 206 ? "append" : "new");
    let done = response.status === 206 ? have : 0;
    const length = Number(response.headers.get("content-length") ?? 0);
    const total = length > 0 ? done + length : undefined;
    const bar = context.progressBar({ what: `of ${basename(partial, ".part")}`, inBytes: true });
    try {
      for await (const chunk of response.body) {
        watch();
        watch = context.clock.after(SILENCE_MS, () => silent.abort(tooSilent()));
        await out.write(chunk);
        done += chunk.length;
        bar.show(done, total);
      }
      await out.sync();
    } catch (cause) {
      if (cause instanceof FileError) throw cause;
      throw unreachable(url, cause);
    } finally {
      out.close();
      bar.end();
    }
  } finally {
    watch();
    http?.close();
  }
}

function tooSilent(): SvcError {
  return new SvcError("unavailable", `nothing came for ${SILENCE_MS / 1000} s`);
}

function unreachable(url: string, cause: unknown): SvcError {
  return new SvcError("unavailable", `cannot download ${shownUrl(url)}: ${messageOf(cause)}`, { cause });
}

function refused(url: string, status: number): SvcError {
  const codes: { readonly [status: number]: Code } = {
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
  };
  const code = codes[status] ?? "unavailable";
  return new SvcError(code, `cannot download ${shownUrl(url)}: the control plane answered HTTP ${status}`);
}

/** Checks a SHA-256 in hexadecimal digits, or a CRC-32C in base64, as published; any other checksum passes. */
async function isWhole(files: ReadFiles, file: string, checksum: string): Promise<boolean> {
  const isCrc = /^[A-Za-z0-9+/]{6}==$/.test(checksum);
  if (!isCrc && !/^[0-9a-f]{64}$/i.test(checksum)) return true;
  const [hash, crc] = [createHash("sha256"), new Crc32c()];
  for await (const chunk of files.readPieces(file)) (isCrc ? crc : hash).update(chunk);
  return isCrc ? crc.base64() === checksum : hash.digest("hex") === checksum.toLowerCase();
}

function describeSeen({ bboxes, classifications }: Annotations): string[] {
  const percent = (confidence: number | undefined) =>
    confidence === undefined ? "-" : `${(confidence * 100).toFixed(1)} %`;
  const best = <T extends { confidence?: number }>(all: T[]) =>
    all.toSorted((a, b) => (b.confidence ?? 0) - (a.confidence ?? 0));
  const boxes = best(bboxes).map((box) => [
    box.label,
    percent(box.confidence),
    [box.xMinNormalized, box.yMinNormalized, box.xMaxNormalized, box.yMaxNormalized]
      .map((one) => one.toFixed(3)).join(" "),
  ]);
  const classes = best(classifications).map(({ label, confidence }) => [label, percent(confidence), "-"]);
  if (boxes.length + classes.length === 0) return ["nothing"];
  return table([["LABEL", "CONFIDENCE", "BOX (x y to x y)"], ...boxes, ...classes]);
}
