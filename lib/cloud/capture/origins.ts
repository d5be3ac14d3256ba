/**
 * The sources of captured data: the part, and the method of its component or service.
 *
 * Owns the table `data_origins`. All members together identify a source, so it is stored once for all its data. It
 * describes the machine at the time when the data arrived.
 */

import { createHash } from "node:crypto";
import type { CaptureMetadataSchema } from "../../../proto/gen/data_pb.ts";
import type { UploadMetadata } from "../../../proto/gen/datasync_pb.ts";
import { SvcError } from "../../base/error.ts";
import { comparableJson, type Json, type JsonObject } from "../../base/schema/schema.ts";
import {
  type Any,
  anyPack,
  anyUnpack,
  BoolValueSchema,
  DoubleValueSchema,
  fromJson,
  Int64ValueSchema,
  type MessageInitShape,
  StringValueSchema,
  StructSchema,
  toJson,
  ValueSchema,
} from "../../wire/rpc/proto.ts";
import type { Part } from "../tenants/parts.ts";
import type { BatchStatement, Sql } from "../store/store.ts";

export interface DataOrigin {
  readonly organizationId: string;
  readonly locationId: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly partId: string;
  readonly partName: string;
  readonly componentType: string;
  readonly componentName: string;
  readonly methodName: string;
  /** The arguments of the method, as JSON with sorted names. */
  readonly parameters: string;
}

/** The columns of a source `o`. */
export const ORIGIN_COLUMNS = `o.organization_id AS "organizationId", o.location_id AS "locationId",
  o.machine_id AS "machineId", o.machine_name AS "machineName", o.part_id AS "partId", o.part_name AS "partName",
  o.component_type AS "componentType", o.component_name AS "componentName", o.method_name AS "methodName",
  o.parameters`;

/** The columns that queries may restrict, by the published names. */
export const SOURCE_COLUMNS: { readonly [field: string]: string } = {
  location_id: "o.location_id",
  robot_id: "o.machine_id",
  part_id: "o.part_id",
  component_type: "o.component_type",
  component_name: "o.component_name",
  method_name: "o.method_name",
};

const TEXT_LENGTH_MAX = 1_000;
const PARAMETERS_LENGTH_MAX = 16_000;
/** Limit of nested messages in a parameter. */
const WRAPPERS = [
  ValueSchema,
  StructSchema,
  StringValueSchema,
  BoolValueSchema,
  DoubleValueSchema,
  Int64ValueSchema,
];

/** The facts about a part at the arrival of its data. */
export type Source = Pick<
  Part,
  "organizationId" | "locationId" | "machineId" | "machineName" | "id" | "name"
>;

/** The source that a part's upload names. */
export function dataOriginOf(part: Source, metadata: UploadMetadata): DataOrigin {
  const parameters = comparableJson(
    Object.fromEntries(Object.entries(metadata.methodParameters).map(([name, any]) => [name, unpacked(any)])),
  );
  return {
    organizationId: part.organizationId,
    locationId: part.locationId,
    machineId: part.machineId,
    machineName: part.machineName,
    partId: part.id,
    partName: part.name,
    componentType: plainText("component_type", metadata.componentType),
    componentName: plainText("component_name", metadata.componentName),
    methodName: plainText("method_name", metadata.methodName),
    parameters: plainText("method_parameters", parameters, PARAMETERS_LENGTH_MAX),
  };
}

/** Stores a source. Returns its id. */
export async function noteOrigin(sql: Sql, origin: DataOrigin): Promise<string> {
  const { text, values } = originStatement(origin);
  await sql.query(text, ...values);
  return originIdOf(origin);
}

/** Stores a source. */
export function originStatement(origin: DataOrigin): BatchStatement {
  return {
    text:
      `INSERT INTO data_origins (id, organization_id, location_id, machine_id, machine_name, part_id, part_name,
         component_type, component_name, method_name, parameters)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    values: [originIdOf(origin), ...valuesOf(origin)],
  };
}

/** The source in something that has more members. */
export function originIn(one: DataOrigin): DataOrigin {
  const { organizationId, locationId, machineId, machineName, partId, partName } = one;
  const { componentType, componentName, methodName, parameters } = one;
  const places = { organizationId, locationId, machineId, machineName, partId, partName };
  return { ...places, componentType, componentName, methodName, parameters };
}

export function originIdOf(origin: DataOrigin): string {
  // Hexadecimal digits, which all collations order in the same way.
  return createHash("sha256").update(JSON.stringify(valuesOf(origin))).digest("hex").slice(0, 32);
}

function valuesOf(origin: DataOrigin): string[] {
  return [
    origin.organizationId,
    origin.locationId,
    origin.machineId,
    origin.machineName,
    origin.partId,
    origin.partName,
    origin.componentType,
    origin.componentName,
    origin.methodName,
    origin.parameters,
  ];
}

/** A source in the form of captured data messages. */
export function captureMetadata(origin: DataOrigin): MessageInitShape<typeof CaptureMetadataSchema> {
  return {
    organizationId: origin.organizationId,
    locationId: origin.locationId,
    robotName: origin.machineName,
    robotId: origin.machineId,
    partName: origin.partName,
    partId: origin.partId,
    componentType: origin.componentType,
    componentName: origin.componentName,
    methodName: origin.methodName,
    methodParameters: Object.fromEntries(
      Object.entries(JSON.parse(origin.parameters) as JsonObject).map((
        [name, value],
      ) => [name, anyPack(ValueSchema, fromJson(ValueSchema, value as never))]),
    ),
  };
}

/** A text of a request that both databases can store. Throws `invalid_argument`. */
export function plainText(what: string, text: string, lengthMax = TEXT_LENGTH_MAX): string {
  if (text.length <= lengthMax && !text.includes("\0")) return text;
  const found = text.length > lengthMax ? `${text.length} characters` : "a zero byte";
  throw new SvcError(
    "invalid_argument",
    `${what} has ${found}, wanted at most ${lengthMax} characters of text`,
  );
}

function unpacked(any: Any): Json {
  for (const schema of WRAPPERS) {
    const message = anyUnpack(any, schema);
    if (message) return toJson(schema, message as never) as Json;
  }
  return { "@type": any.typeUrl, value: btoa(String.fromCharCode(...any.value)) };
}
