/**
 * Containers that organizations have registered for their training scripts.
 *
 * Owns the table `training_containers`. A container is an image's name with its purpose; only a cluster runs images,
 * and only those whose names start with a prefix that the operator allows.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { hasHidden } from "../../base/escape.ts";
import type { Sql } from "../store/store.ts";

export interface RegisteredContainer {
  readonly id: string;
  readonly organizationId: string;
  readonly imageUri: string;
  readonly description: string;
  readonly createdMs: number;
}

const COLUMNS = `SELECT id, organization_id AS "organizationId", image_uri AS "imageUri", description,
  created_ms AS "createdMs" FROM training_containers`;
const URI_LETTERS_MAX = 500;
const DESCRIPTION_LETTERS_MAX = 1_000;
/** `registry:5000/team/image:tag@sha256:…`: no step of its path starts with a dot. */
const IMAGE =
  /^[a-z0-9][a-z0-9.-]*(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$/;

export class TrainingContainers {
  constructor(private readonly sql: Sql) {}

  /** Throws `invalid_argument`. */
  async register(
    organizationId: string,
    imageUri: string,
    description: string,
    nowMs: number,
  ): Promise<string> {
    requireImage(imageUri);
    if (description.length > DESCRIPTION_LETTERS_MAX || hasHidden(description)) {
      throw invalid(
        `description: wanted at most ${DESCRIPTION_LETTERS_MAX} characters without control characters`,
      );
    }
    const id = randomUUID();
    await this.sql.query(
      `INSERT INTO training_containers (id, organization_id, image_uri, description, created_ms)
       VALUES (?, ?, ?, ?, ?)`,
      id,
      organizationId,
      imageUri,
      description,
      nowMs,
    );
    return id;
  }

  list(organizationId: string): Promise<RegisteredContainer[]> {
    return this.sql.query(`${COLUMNS} WHERE organization_id = ? ORDER BY created_ms, id`, organizationId);
  }

  async find(id: string): Promise<RegisteredContainer | undefined> {
    const [found] = await this.sql.query<RegisteredContainer>(`${COLUMNS} WHERE id = ?`, id);
    return found;
  }

  /** Jobs submitted with it keep their image. */
  async delete(id: string): Promise<void> {
    await this.sql.query("DELETE FROM training_containers WHERE id = ?", id);
  }
}

/** Throws `invalid_argument` unless it is the name of an image. */
export function requireImage(imageUri: string): void {
  if (imageUri.length <= URI_LETTERS_MAX && IMAGE.test(imageUri)) return;
  const wanted = "wanted an image with its registry, such as registry.example.com/team/image:1.0";
  throw invalid(`image_uri: found ${JSON.stringify(imageUri.slice(0, URI_LETTERS_MAX))}, ${wanted}`);
}

/** Whether the name of an image starts with one of these prefixes, which end with `/`. */
export function isAllowedImage(imageUri: string, beginnings: readonly string[]): boolean {
  return beginnings.some((beginning) => imageUri.startsWith(beginning));
}

function invalid(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}
