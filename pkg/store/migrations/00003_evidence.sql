-- +goose Up
ALTER TABLE history ADD COLUMN evidence TEXT; -- JSON object; NULL: none was asked for, or to be had
