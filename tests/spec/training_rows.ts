/** The specification of the ML training client. */

import { holds, type Section } from "./row.ts";

const TRAINING = "tests/cloud/training_test.ts: ";
const CLIENT = "lib/cloud_client/training_client_test.ts: ";
const REQUEST = "lib/cloud_client/training_request_test.ts: ";
const BOTH = CLIENT + "the published operations exist in both styles of names, with the same meaning";

export const TRAINING_SECTIONS: readonly Section[] = [
  {
    title: "ML training",
    rows: [
      holds(
        "Jobs are submitted, inspected, listed, cancelled and deleted from Python and TypeScript.",
        [
          "tests/cloud/training_interop_test.ts: the published Python SDK submits training jobs and registers a container",
          BOTH,
        ],
        "beyond: `svc-ml`, and a library for TypeScript",
      ),
      holds("Parameters have snake_case names, in TypeScript camelCase names.", BOTH),
      holds(
        "`MODEL_TYPE_SINGLE_LABEL_CLASSIFICATION`, `MODEL_TYPE_MULTI_LABEL_CLASSIFICATION`, `MODEL_TYPE_OBJECT_DETECTION`, also without the prefix.",
        [
          CLIENT + "parseModelType, parseFramework and parseStatus: accept every published spelling",
          "tests/ml/jobs_test.ts: submit accepts a model type in every spelling and labels from several flags",
          "tests/cloud/executor_test.ts: embedded: ${modelType} produces a model, its labels and its metadata",
        ],
      ),
      holds(
        "`model_version` is unique among the versions of the model.",
        TRAINING + "of several jobs for one version of a model at the same time, one is accepted",
      ),
      holds(
        "`SubmitTrainingJob`: `org_id`, `dataset_id`, `model_name`, `model_version`, `model_type`, `tags`; returns the job's ID.",
        [
          TRAINING + "a training job runs, logs its progress and publishes its model",
          TRAINING + "refuses an impossible job, with the reason",
          REQUEST + "one label is enough if some images do not have it",
          TRAINING +
          "a job keeps its training settings, within bounds, and shows the ones that were set",
        ],
        "errors name parameters as in the published request. Beyond: `epochs`, `seed` and `holdout_percent`, " +
          "for svc-cloud alone (`svc-ml submit --epochs --seed --holdout`)",
      ),
      holds(
        "`SubmitCustomTrainingJob`: with `registry_item_id` and `registry_item_version`.",
        [
          TRAINING + "a custom job gets its script, its arguments and an API key that ends with the job",
          TRAINING + "refuses an impossible job, with the reason",
        ],
      ),
      holds(
        "`GetTrainingJob`: takes `id`, returns the job's metadata.",
        [
          TRAINING + "a training job runs, logs its progress and publishes its model",
          "tests/ml/models_test.ts: a classifier's confusion is shown with its job and in the list of models",
        ],
        "beyond: `svc-ml get` shows the model's metrics, for a classifier also its confusion",
      ),
      holds(
        "`ListTrainingJobs`: takes `org_id` and optionally a status.",
        [BOTH, TRAINING + "jobs run in order, as many at once as there is room for"],
      ),
      holds(
        "`TrainingStatus` has `RUNNING`.",
        CLIENT + "parseModelType, parseFramework and parseStatus: accept every published spelling",
        "the library has it as another name of the published `IN_PROGRESS`",
      ),
      holds(
        "`CancelTrainingJob`: takes `id`.",
        TRAINING + "CancelTrainingJob cancels waiting and running jobs, and refuses jobs that have ended",
      ),
      holds(
        "`DeleteCompletedTrainingJob`: takes `id` of a job that has succeeded or failed.",
        TRAINING + "a training job runs, logs its progress and publishes its model",
      ),
      holds(
        "Only owners of the organization may call these operations.",
        "tests/cloud/access_test.ts: svc-cloud refuses training calls of an operator and of a location's owner",
        "beyond: every key may call `ListSupportedContainers`, which the specification does not mention",
      ),
    ],
  },
];
