/**
 * Rules of captured data and datasets: operators view, upload, tag and sort; owners remove. Training jobs view, too.
 */

import { DataService } from "../../../proto/gen/data_pb.ts";
import { DataPipelinesService } from "../../../proto/gen/data_pipelines_pb.ts";
import { DatasetService } from "../../../proto/gen/dataset_pb.ts";
import { DataSyncService } from "../../../proto/gen/datasync_pb.ts";
import { type RequestField, type Rule, rule } from "./access.ts";

const data = DataService.method;
const dataset = DatasetService.method;
const pipelines = DataPipelinesService.method;
const sync = DataSyncService.method;

/** Ids of captured data as newer and older libraries send them. */
const IDS = "binaryDataIds|binaryIds.fileId";
const ID = "binaryDataId|binaryId.fileId";

/** The resources that a filter may name; it may name none. */
const within = (filter: string) => ({
  open: true,
  on: [
    { kind: "organization", field: `${filter}.organizationIds` },
    { kind: "location", field: `${filter}.locationIds` },
    { kind: "machine", field: `${filter}.robotId` },
    { kind: "part", field: `${filter}.partId` },
    { kind: "dataset", field: `${filter}.datasetId` },
  ] satisfies RequestField[],
});

/** The owner of an upload without a part. */
const ownersIn = (metadata: string): readonly RequestField[] => [
  { kind: "dataset", field: `${metadata}.datasetIds` },
  { kind: "organization", field: `${metadata}.organizationId` },
];

const RULES: readonly Rule[] = [
  rule(sync.dataCaptureUpload, "operator", ["part", "metadata.partId"]),
  // A person's upload need not come from a machine.
  { ...rule(sync.fileUpload, "operator", ["part", "metadata.partId"]), instead: ownersIn("metadata") },
  {
    ...rule(sync.streamingDataCaptureUpload, "operator", ["part", "metadata.uploadMetadata.partId"]),
    instead: ownersIn("metadata.uploadMetadata"),
  },

  { ...rule(data.binaryDataByFilter, "viewer"), ...within("dataRequest.filter"), partly: "viewer" },
  { ...rule(data.tabularDataByFilter, "viewer"), ...within("dataRequest.filter"), partly: "viewer" },
  { ...rule(data.tagsByFilter, "viewer"), ...within("filter"), partly: "viewer" },
  { ...rule(data.boundingBoxLabelsByFilter, "viewer"), ...within("filter"), partly: "viewer" },
  { ...rule(data.addTagsToBinaryDataByFilter, "operator"), ...within("filter"), partly: "operator" },
  { ...rule(data.removeTagsFromBinaryDataByFilter, "operator"), ...within("filter"), partly: "operator" },
  // An unspecified removal would remove too much: the request names the organization.
  { ...rule(data.deleteBinaryDataByFilter, "owner"), ...within("filter"), open: false },

  rule(data.binaryDataByIDs, "viewer", ["data", IDS]),
  rule(data.deleteBinaryDataByIDs, "owner", ["data", IDS]),
  rule(data.addTagsToBinaryDataByIDs, "operator", ["data", IDS]),
  rule(data.removeTagsFromBinaryDataByIDs, "operator", ["data", IDS]),
  rule(data.addBoundingBoxToImageByID, "operator", ["data", ID]),
  rule(data.updateBoundingBox, "operator", ["data", ID]),
  rule(data.removeBoundingBoxFromImageByID, "operator", ["data", ID]),
  {
    ...rule(data.addBinaryDataToDatasetByIDs, "operator", ["data", IDS], ["dataset", "datasetId"]),
    partly: "owner",
  },
  {
    ...rule(data.removeBinaryDataFromDatasetByIDs, "operator", ["data", IDS], ["dataset", "datasetId"]),
    partly: "owner",
  },
  rule(data.createBinaryDataSignedURL, "viewer", ["data", "binaryDataId"]),

  rule(data.createSequence, "operator", ["part", "partId"]),
  rule(data.getSequence, "viewer", ["sequence", "id"]),
  rule(data.updateSequence, "operator", ["sequence", "id"]),
  rule(data.deleteSequence, "owner", ["sequence", "id"]),
  rule(data.listSequences, "viewer", ["organization", "organizationId"]),
  rule(data.sequencesByDatasetID, "viewer", ["dataset", "datasetId"]),
  rule(data.getSequenceBinaryData, "viewer", ["sequence", "sequenceId"]),
  rule(data.addSequencesToDataset, "operator", ["dataset", "datasetId"], ["sequence", "sequenceIds"]),
  rule(data.removeSequencesFromDataset, "operator", ["dataset", "datasetId"]),

  { ...rule(data.tabularDataBySQL, "viewer", ["organization", "organizationId"]), partly: "viewer" },
  { ...rule(data.tabularDataByMQL, "viewer", ["organization", "organizationId"]), partly: "viewer" },
  rule(data.createSavedQuery, "operator", ["organization", "organizationId"]),
  rule(data.updateSavedQuery, "operator", ["saved_query", "id"]),
  rule(data.getSavedQuery, "viewer", ["saved_query", "id"]),
  rule(data.deleteSavedQuery, "operator", ["saved_query", "id"]),
  rule(data.listSavedQueries, "viewer", ["organization", "organizationId"]),
  // As published: owners create and change pipelines, operators read their results.
  rule(pipelines.getDataPipeline, "viewer", ["pipeline", "id"]),
  rule(pipelines.listDataPipelines, "viewer", ["organization", "organizationId"]),
  rule(pipelines.createDataPipeline, "owner", ["organization", "organizationId"]),
  rule(pipelines.renameDataPipeline, "owner", ["pipeline", "id"]),
  rule(pipelines.deleteDataPipeline, "owner", ["pipeline", "id"]),
  rule(pipelines.enableDataPipeline, "owner", ["pipeline", "id"]),
  rule(pipelines.disableDataPipeline, "owner", ["pipeline", "id"]),
  rule(pipelines.listDataPipelineRuns, "viewer", ["pipeline", "id"]),
  rule(data.exportTabularData, "viewer", ["part", "partId"]),
  rule(data.getLatestTabularData, "viewer", ["part", "partId"]),
  rule(data.deleteTabularData, "owner", ["organization", "organizationId"]),

  // As published: owners of machines and locations see the names of datasets, make some, and sort their data there.
  { ...rule(dataset.createDataset, "operator", ["organization", "organizationId"]), partly: "owner" },
  rule(dataset.renameDataset, "operator", ["dataset", "id"]),
  rule(dataset.deleteDataset, "owner", ["dataset", "id"]),
  {
    ...rule(dataset.listDatasetsByOrganizationID, "viewer", ["organization", "organizationId"]),
    partly: "owner",
  },
  // The published command line sends an empty list to request everything.
  { ...rule(dataset.listDatasetsByIDs, "viewer", ["dataset", "ids"]), open: true, partly: "owner" },
  rule(dataset.startSequenceDatasetExport, "operator", ["dataset", "datasetId"]),
  rule(dataset.getSequenceDatasetExport, "viewer", ["sequence_export", "jobId"]),
  rule(dataset.mergeDatasets, "operator", ["organization", "organizationId"], ["dataset", "datasetIds"]),
];

/** The calls of a training script to its control plane. */
const FOR_JOBS: readonly { readonly name: string }[] = [
  data.binaryDataByFilter,
  data.binaryDataByIDs,
  data.tabularDataByFilter,
  data.exportTabularData,
  data.getLatestTabularData,
  data.tagsByFilter,
  data.boundingBoxLabelsByFilter,
  data.createBinaryDataSignedURL,
  data.getSequence,
  data.listSequences,
  data.sequencesByDatasetID,
  data.getSequenceBinaryData,
  dataset.listDatasetsByIDs,
  dataset.listDatasetsByOrganizationID,
];

export const DATA_RULES: readonly Rule[] = RULES.map((rule) => ({
  ...rule,
  forJobs: FOR_JOBS.includes(rule.method),
}));
