/** The flags that all commands of svc-cloud share. */

import type { Flag, Values } from "../flags.ts";

/** Where a control plane on this host keeps what. */
export const STORE_FLAGS = [
  {
    name: "data",
    type: "string",
    default: "svc-cloud-data",
    value: "FOLDER",
    env: "SVC_CLOUD_DATA",
    help: "The data folder.",
  },
  {
    name: "database",
    type: "string",
    default: "",
    value: "URL",
    env: "SVC_CLOUD_DATABASE",
    help: "A PostgreSQL database instead of the one in the folder: " +
      "postgres://user@host/name?sslmode=verify-full. The password (user:password@host) goes into the variable, or into " +
      "PGPASSWORD: other users of this computer see a command line.",
  },
  {
    name: "keys",
    type: "string",
    default: "",
    value: "FOLDER",
    env: "SVC_CLOUD_KEYS",
    help:
      "The folder of the control plane's own keys; left out, keys in the data folder. Control planes on one database " +
      "have the same keys.",
  },
  {
    name: "files",
    type: "string",
    default: "",
    value: "PLACE",
    env: "SVC_CLOUD_FILES",
    help:
      "Where uploaded files are: a folder, or s3://BUCKET/PREFIX?endpoint=URL (docs/operating.md); left out, the folder " +
      "files in the data folder. Control planes on one database have the same.",
  },
] as const satisfies readonly Flag[];

export const PROFILE_FLAG = {
  name: "profile",
  type: "string",
  default: "",
  value: "PROFILE",
  env: "SVC_CLOUD_PROFILE",
  help: "Work on a control plane elsewhere: the one that svc-cloud login has stored under this name.",
} as const satisfies Flag;

/** Flags of every command. */
export const CLOUD_FLAGS = [...STORE_FLAGS, PROFILE_FLAG] as const satisfies readonly Flag[];

export type StoreFlags = Values<typeof STORE_FLAGS>;

export type CloudFlags = Values<typeof CLOUD_FLAGS>;
