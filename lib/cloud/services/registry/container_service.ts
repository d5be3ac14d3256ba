/**
 * MLTrainingService, the containers of training scripts: those of the executor, for everybody, and those that
 * organizations register. Thin, as `training_service.ts`.
 */

import {
  type ContainerSchema,
  type MLTrainingService,
  Visibility,
} from "../../../../proto/gen/ml_training_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { requireQuota } from "../../access/quota.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import type { Executors, ScriptEnvironment } from "../../executors/executor.ts";
import {
  isAllowedImage,
  type RegisteredContainer,
  requireImage,
  TrainingContainers,
} from "../../executors/containers.ts";

export function containerHandlers({ store, access, audit, limits }: CloudContext, executors: Executors) {
  const ours = executors.custom?.environments ?? [];
  const registered = new TrainingContainers(store);
  return {
    listSupportedContainers() {
      return { containerMap: Object.fromEntries(ours.map((one) => [one.key, environmentMessage(one)])) };
    },
    async listContainers({ organizationId }) {
      const own = await registered.list(organizationId);
      return { containers: [...ours.map(environmentMessage), ...own.map(registeredMessage)] };
    },
    async getContainer({ id }, ctx) {
      const environment = ours.find(({ key }) => key === id);
      if (environment) return { container: environmentMessage(environment) };
      const found = await registered.find(id);
      const on = found && { kind: "organization", id: found.organizationId } as const;
      // The containers of other organizations stay hidden.
      if (!found || !await access.may(ctx.entity, "owner", on!)) {
        throw new SvcError("not_found", `there is no container "${id}"`);
      }
      return { container: registeredMessage(found) };
    },
    async registerCustomTrainingContainer({ organizationId: on, imageUri, description }, ctx) {
      requireImage(imageUri);
      requireAllowed(executors, imageUri);
      const id = await audit.change(
        actorOf(ctx),
        { kind: "organization", id: on },
        async (sql, nowMs) => {
          const id = await new TrainingContainers(sql).register(on, imageUri, description, nowMs);
          await requireQuota(sql, limits, "containersPerOrganization", on);
          return id;
        },
      );
      return { id };
    },
    async deleteCustomTrainingContainer({ id }, ctx) {
      const on = { kind: "container", id } as const;
      await audit.change(actorOf(ctx), on, (sql) => new TrainingContainers(sql).delete(id));
      return {};
    },
  } satisfies ServiceImpl<typeof MLTrainingService>;
}

/** Throws if scripts cannot run in images at all, or not in this one. */
export function requireAllowed({ custom, noScripts }: Executors, imageUri: string): void {
  if (!custom) {
    throw new SvcError("unimplemented", noScripts ?? "this control plane runs no training scripts");
  }
  const { images } = custom;
  if (!images) {
    throw new SvcError(
      "unimplemented",
      "this control plane runs training scripts in the Pythons of its machine, not in containers: " +
        "ListSupportedContainers lists them",
    );
  }
  if (isAllowedImage(imageUri, images)) return;
  const wanted = images.length > 0
    ? `wanted one whose name begins with ${images.join(" or ")}`
    : "and organizations may not register images: the operator of this control plane allows registries with " +
      "svc-cloud serve --kubernetes-registries";
  throw new SvcError(
    "failed_precondition",
    `image_uri: found ${JSON.stringify(imageUri.slice(0, 200))}, ${wanted}`,
  );
}

type Message = MessageInitShape<typeof ContainerSchema>;

function environmentMessage({ key, uri, framework, description }: ScriptEnvironment): Message {
  return { id: key, key, uri, framework, description, visibility: Visibility.PUBLIC };
}

function registeredMessage(
  { id, organizationId, imageUri, description, createdMs }: RegisteredContainer,
): Message {
  return {
    id,
    key: id,
    uri: imageUri,
    description,
    organizationId,
    createdOn: toTimestamp(createdMs),
    visibility: Visibility.PRIVATE,
  };
}
